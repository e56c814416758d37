#include "lockstep/train/loop/saver.h"

#include <chrono>
#include <utility>

#include "lockstep/base/hash.h"
#include "lockstep/base/seconds.h"
#include "lockstep/record/confusion_file.h"
#include "lockstep/train/loop/ranks.h"

namespace lockstep::train {

Saver::Saver(const TrainingSetup& setup, Parts parts) : setup_(setup), parts_(parts) {}

void Saver::save_if_due() {
  RunState& state = parts_.state;
  const auto is_due = [&](int64_t every) { return parts_.update.is_due(state.step, every); };
  const auto start = std::chrono::steady_clock::now();
  state.seconds = parts_.end.seconds();
  if (is_due(setup_.plan.record.hash_every) || parts_.end.is_end(state.step)) report_hash();
  const bool best = std::exchange(best_pending_, false);
  // A resume from an older checkpoint would have to run out of memory in the same step.
  const bool pieces = pieces_unsaved_ && is_due(1);
  if (pieces) pieces_unsaved_ = false;
  const bool asked = asked_ && is_due(1);
  if (asked) asked_ = false;
  bool due =
      (pieces || asked || is_due(setup_.plan.record.checkpoint_every)) && !parts_.end.is_last(state.step);
  if (due) parts_.update.collect(state.step);
  if (setup_.writer == nullptr) return;
  if (due && !best && !pieces && !asked && setup_.writer->busy()) {
    ++skipped_checkpoints_;
    due = false;
  }
  if (due || best) {
    Snapshot saved = copied({.checkpoint = due, .best = best});
    if (best) saved.state.best_weights_hash = state.best_weights_hash = tensors_hash(saved.weights);
    setup_.writer->submit(std::move(saved));
  }
  parts_.reports.add_checkpoint_seconds(seconds_since(start));
}

void Saver::report_hash() {
  const uint64_t hash = parts_.weights.hash();
  compare_hashes(setup_.comm, hash, parts_.state.step);
  parts_.reports.say(record::Hash{.weights = as_hex(hash)});
}

Snapshot Saver::copied(Use use) {
  const auto copies = [](nn::NamedTensors tensors) {
    for (auto& [name, tensor] : tensors) tensor = tensor.to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
    return tensors;
  };
  const ConfusionMatrix confusion = std::exchange(confusion_, {});
  return {
      .state = parts_.state,
      .fingerprint = setup_.fingerprint,
      .weights = copies(parts_.weights.state()),
      .optimizer = use.checkpoint ? copies(parts_.update.state(parts_.state.step)) : nn::NamedTensors{},
      .checkpoint = use.checkpoint,
      .best = use.best,
      .confusion = confusion.empty() ? "" : record::confusion_text({setup_.plan.data.classes, confusion})};
}

}  // namespace lockstep::train
