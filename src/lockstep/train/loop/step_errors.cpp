#include "lockstep/train/loop/step_errors.h"

#include <cmath>
#include <string>

#include "lockstep/base/counted.h"
#include "lockstep/base/share.h"
#include "lockstep/train/step/bad_loss.h"

namespace lockstep::train {
namespace {

std::string bad_loss_hint(int64_t steps_done, const std::string& weights) {
  if (steps_done > 0)
    return "try a smaller --learning-rate, or --gradient-clip 1; the last checkpoint is of an earlier step";
  return "no step has changed the weights yet, so the learning rate is not the cause: look for values that "
         "are not finite, or very large, in " +
         (weights.empty() ? "" : "the weights \"" + weights + "\", ") +
         "the data, the images after --normalize, and your own network if you have one";
}

std::string pieces_text(int64_t pieces, size_t shards) {
  if (pieces > 1) return " in " + std::to_string(pieces) + " pieces";
  return shards > 1 ? ", together with " + std::to_string(shards - 1) + " more" : "";
}

}  // namespace

void StepErrors::check_losses(std::span<const ShardResult> results) const {
  for (size_t i = 0; i < results.size(); ++i) {
    if (std::isfinite(results[i].loss)) continue;
    throw bad_loss(results[i].loss, state_.step + 1, std::string(names_.part) + " " + std::to_string(i),
                   bad_loss_hint(state_.step, plan_.network.weights));
  }
}

bool StepErrors::may_split(int64_t samples) const {
  return plan_.step.out_of_memory == OutOfMemory::split &&
         used_shards(2 * state_.pieces, samples) > used_shards(state_.pieces, samples);
}

Error StepErrors::out_of_memory(const Error& error, std::span<const data::Shard> shards,
                                int64_t shard_count) const {
  const data::Shard& first = shards.front();
  const int64_t samples = first.count, pieces = used_shards(state_.pieces, samples),
                smaller = used_shards(2 * pieces, samples);
  std::string hint;
  if (smaller > pieces) {
    const std::string half = std::to_string(divided_up(samples, smaller));
    if (names_.may_be_more && pieces == 1)
      hint = "--shards " + std::to_string(2 * shard_count) + " computes " + half + " at once, and ";
    hint += "--accumulate " + std::to_string(smaller) + " computes " + half + " at once" +
            (hint.empty() ? "" : " of the same shards") +
            "; --on-out-of-memory split does this automatically, also with --resume; or ";
  }
  Error whole(ErrorCode::out_of_memory, error.message(), hint + error.hint());
  for (const std::string& line : error.context()) whole.add_context(line);
  whole.add_context("in step " + std::to_string(state_.step + 1) + ", in " + names_.part + " " +
                    std::to_string(first.index) + " with " + counted(samples, "sample") +
                    pieces_text(pieces, shards.size()));
  return whole;
}

void StepErrors::rethrow_from(std::span<const data::Shard> shards) {
  const std::string step = "step " + std::to_string(state_.step + 1),
                    part = std::string(names_.part) + " " + std::to_string(shards.front().index);
  try {
    throw;
  } catch (Error& error) {
    // A cancelled worker was interrupted, wherever it was.
    if (error.code() != ErrorCode::cancelled) error.add_context("in " + step + ", in " + part);
    throw;
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (failed_in_.empty()) failed_in_ = step + ", " + part;
    throw;
  }
}

std::string StepErrors::failed_in() const {
  const std::lock_guard lock(mutex_);
  return failed_in_;
}

}  // namespace lockstep::train
