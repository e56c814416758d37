// Errors that end a run in a step: they name the step and the shard.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/data/mini_batch_queue.h"
#include "lockstep/train/loop/checkpoint.h"
#include "lockstep/train/options/plan.h"
#include "lockstep/train/step/shard_result.h"
#include "lockstep/train/update/step_update.h"

namespace lockstep::train {

/// Of the step after state.step. Any thread.
class StepErrors {
 public:
  /// The plan and the state must outlive the object.
  StepErrors(const Plan& plan, const RunState& state, PartNames names)
      : plan_(plan), state_(state), names_(names) {}

  /// Throws corrupt_data for the first shard whose loss is not finite: the weights that would follow are
  /// lost, and only now it is known which shard did it.
  void check_losses(std::span<const ShardResult> results) const;

  /// Whether shards of this size can be computed in smaller pieces, and the plan allows it.
  bool may_split(int64_t samples) const;

  /// `error` with the step, these shards that a worker was computing, and options that take less memory.
  /// shard_count: of the mini-batch.
  [[nodiscard]] Error out_of_memory(const Error& error, std::span<const data::Shard> shards,
                                    int64_t shard_count) const;

  /// Throws the exception that is being handled, which a worker met in these shards. An Error gets the step
  /// and the shard as context. Any other exception stays as it is, because the program may catch its own; of
  /// these, failed_in() has the place of the first.
  [[noreturn]] void rethrow_from(std::span<const data::Shard> shards);
  /// "step 13, shard 4"; empty if there was none.
  std::string failed_in() const;

 private:
  const Plan& plan_;
  const RunState& state_;
  PartNames names_;
  mutable std::mutex mutex_;
  std::string failed_in_;
};

}  // namespace lockstep::train
