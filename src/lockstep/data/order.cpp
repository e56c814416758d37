#include "lockstep/data/order.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "lockstep/base/seed.h"
#include "lockstep/data/distributed_sampler.h"

namespace lockstep::data {
namespace {

// In order of mini-batches, and within a mini-batch in order of replicas.
std::vector<int64_t> in_mini_batches_of_replicas(const Order& order, int64_t count, int64_t epoch) {
  const int64_t replicas = order.sampler_replicas, each = order.epoch_size(count) / replicas;
  const std::optional<int64_t> seed =
      order.shuffle == Shuffle::never
          ? std::nullopt
          : std::optional(
                static_cast<int64_t>(static_cast<uint64_t>(order.seed) +
                                     static_cast<uint64_t>(order.shuffle == Shuffle::once ? 0 : epoch)));
  const std::vector<int64_t> drawn = distributed_samples(count, replicas, seed);
  std::vector<int64_t> samples;
  for (int64_t begin = 0; begin < each; begin += order.replica_mini_batch_size) {
    const int64_t end = std::min(begin + order.replica_mini_batch_size, each);
    for (int64_t replica = 0; replica < replicas; ++replica) {
      for (int64_t i = begin; i < end; ++i)
        samples.push_back(drawn[static_cast<size_t>(i * replicas + replica)]);
    }
  }
  return samples;
}

}  // namespace

std::vector<int64_t> Order::of_epoch(int64_t count, int64_t epoch) const {
  if (sampler_replicas > 0) return in_mini_batches_of_replicas(*this, count, epoch);
  if (shuffle == Shuffle::never) {
    std::vector<int64_t> order(static_cast<size_t>(count));
    std::iota(order.begin(), order.end(), int64_t{0});
    return order;
  }
  const int64_t drawn_for = shuffle == Shuffle::once ? 0 : epoch;
  return permutation(count, seed_of({static_cast<uint64_t>(seed), static_cast<uint64_t>(drawn_for)}));
}

}  // namespace lockstep::data
