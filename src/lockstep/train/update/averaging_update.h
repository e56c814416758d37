// Averaging mode: each shard of a step trains a replica, and the replicas become their average every few
// steps.
#pragma once

#include "lockstep/train/update/averaging.h"
#include "lockstep/train/update/step_update.h"

namespace lockstep::train {

/// The shared weights are the masters: they change at an average only. Whatever is due waits for the next
/// average.
class AveragingUpdate final : public StepUpdate {
 public:
  explicit AveragingUpdate(UpdateParts parts);

  PartNames part_names() const override { return {.part = "replica"}; }

  void begin(int64_t step) override { averaging_.begin(step); }
  void end_after(int64_t step) override { averaging_.end_after(step); }
  void finish(Share thread, int64_t step) override;

  int64_t most_together(ShardRunner& /*runner*/, int64_t /*samples*/) const override { return 1; }
  void begin_step(Share /*thread*/, const data::Batch& /*batch*/) override {}
  void compute(const WorkerShards& work, std::span<ShardResult> results) override;
  void synchronize(int64_t shard_count) override;
  StepOutcome update(Share thread, const data::Batch& batch, int64_t step,
                     const device::UpdateRule& rule) override;
  void take_results(const StepResults& results, int64_t step) override;
  std::optional<double> average_if_due(Share thread, int64_t step) override;
  bool is_due(int64_t step, int64_t every) const override;

  nn::NamedTensors state(int64_t step) override { return averaging_.state(step); }
  void collect(int64_t step) override { averaging_.collect(step); }
  void hand_out(int64_t step) override { averaging_.hand_out(step); }
  void check_aliases() const override { averaging_.check_aliases(); }

 private:
  std::vector<int64_t> samples_of_replicas(const data::Batch& batch) const;

  UpdateParts parts_;
  Averaging averaging_;
};

}  // namespace lockstep::train
