// The order of samples, as pure functions of (seed, epoch): every worker knows the whole order without
// communication.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "lockstep/base/share.h"

namespace lockstep::data {

enum class Shuffle { never, once, every_epoch };
constexpr std::array<const char*, 3> enum_names(Shuffle) { return {"never", "once", "every-epoch"}; }

/// Who decides the order: this project, or torch.utils.data.DistributedSampler, whose samples depend on its
/// number of replicas.
enum class SampleOrder { lockstep, distributed_sampler };
constexpr std::array<const char*, 2> enum_names(SampleOrder) { return {"lockstep", "distributed-sampler"}; }

/// A position in a run: step counts mini-batches within the epoch. Both count from 0.
struct Cursor {
  int64_t epoch = 0;
  int64_t step = 0;
  friend bool operator==(const Cursor&, const Cursor&) = default;
};

struct Order {
  int64_t seed = 0;
  Shuffle shuffle = Shuffle::every_epoch;
  int64_t sampler_replicas = 0;         ///< above 0: the order of DistributedSampler with this many replicas
  int64_t replica_mini_batch_size = 1;  ///< mini-batch size of each replica

  /// The samples of one epoch in the order in which they are used. `never` gives 0..count-1; `once` gives the
  /// order of epoch 0 in every epoch. With sampler replicas, each mini-batch is the concatenation of the
  /// replicas' mini-batches.
  std::vector<int64_t> of_epoch(int64_t count, int64_t epoch) const;

  /// The length of that order: `count`, rounded up to a multiple of the sampler's replicas.
  int64_t epoch_size(int64_t count) const {
    return sampler_replicas == 0 ? count : divided_up(count, sampler_replicas) * sampler_replicas;
  }
};

/// Number of mini-batches per epoch; the last one may be smaller.
constexpr int64_t steps_per_epoch(int64_t count, int64_t mini_batch_size) {
  return divided_up(count, mini_batch_size);
}

/// The positions in the epoch's order that belong to mini-batch `step`.
constexpr Range mini_batch_range(int64_t count, int64_t mini_batch_size, int64_t step) {
  const int64_t begin = step * mini_batch_size;
  const int64_t end = begin + mini_batch_size;
  return {begin, end < count ? end : count};
}

}  // namespace lockstep::data
