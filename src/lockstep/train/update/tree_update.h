// One set of weights: the gradients of all shards are added in the tree, and the optimizer makes one step.
#pragma once

#include "lockstep/train/step/hidden_states.h"
#include "lockstep/train/update/exchange.h"
#include "lockstep/train/update/step_update.h"

namespace lockstep::train {

/// Also keeps the recurrent state of streams, which continues from step to step.
class TreeUpdate final : public StepUpdate {
 public:
  explicit TreeUpdate(UpdateParts parts);

  PartNames part_names() const override;
  size_t bucket_count() const override { return exchange_.bucket_count(); }

  void begin(int64_t step) override;
  void end_after(int64_t step) override;
  void finish(Share thread, int64_t step) override;

  int64_t most_together(ShardRunner& runner, int64_t samples) const override;
  void begin_step(Share thread, const data::Batch& batch) override;
  void compute(const WorkerShards& work, std::span<ShardResult> results) override;
  void synchronize(int64_t shard_count) override;
  StepOutcome update(Share thread, const data::Batch& batch, int64_t step,
                     const device::UpdateRule& rule) override;
  void take_results(const StepResults& results, int64_t step) override;
  std::optional<double> average_if_due(Share thread, int64_t step) override;
  bool is_due(int64_t step, int64_t every) const override;

  nn::NamedTensors state(int64_t step) override;
  void collect(int64_t step) override;
  void hand_out(int64_t step) override;
  void check_aliases() const override {}

 private:
  std::unique_ptr<kernels::GradientTarget> begin_node(const WorkerShards& work);

  UpdateParts parts_;
  Exchange exchange_;
  HiddenStates hidden_states_;
};

}  // namespace lockstep::train
