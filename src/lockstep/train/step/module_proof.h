// Shows that a user's module gives several shards the bits that each has alone.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/data/mini_batch_queue.h"

namespace lockstep::train {

/// What a forward and backward pass over some shards gives.
struct PassBits {
  at::Tensor logits;                  ///< [b,classes]
  std::vector<at::Tensor> of_shards;  ///< loss, correct samples and batch norms' statistics of each
  std::vector<at::Tensor> gradients;  ///< undefined: none
  std::string apart;                  ///< why the module mixes samples, if it was watched and does
};

/// Runs `shards` equal shards as one batch. Where watched (nn::OperatorWatch) and the module mixes samples,
/// it ends after forward.
using RunPass = std::function<PassBits(const data::Shard& samples, int64_t shards, bool watched)>;

/// Empty if all operators keep samples apart, and this shard and two made of it have equal bits together and
/// one after the other. Otherwise the reason, as the end of a sentence.
std::string why_apart(const data::Shard& shard, const RunPass& run);

/// The trials of the workers of a process, whose modules are equal. One worker at a time makes a trial,
/// because it takes much memory. Any thread.
class ModuleTrials {
 public:
  /// What `try_module`, which must not throw, says of shards of this many samples. Only the first caller
  /// makes the trial.
  std::string why_apart(int64_t samples, const std::function<std::string()>& try_module);

  /// Of the reasons that it has not given before, a sentence with the first size each.
  std::vector<std::string> new_reasons();

 private:
  std::mutex mutex_;
  std::map<int64_t, std::string> reasons_;  // by the samples of a shard
  std::set<std::string> given_;
};

}  // namespace lockstep::train
