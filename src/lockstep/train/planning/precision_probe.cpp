#include "lockstep/train/planning/precision_probe.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/train/loop/training.h"
#include "lockstep/train/step/first_instance.h"

namespace lockstep::train {
namespace {

constexpr int64_t kFewestProbeSteps = 10;
constexpr int64_t kMostProbeSteps = 60;
constexpr double kProbeSeconds = 4;  // approximately, for each precision
constexpr int64_t kMostHeldOut = 2000;
constexpr double kLeastGain = 1.1;  // a smaller gain cannot be measured in a short trial

std::shared_ptr<const data::ImageSet> part_of_held_out(const data::Dataset& held_out,
                                                       const data::ImageFormat& format) {
  std::vector<int64_t> indices;
  const int64_t stride = divided_up(held_out.size(), kMostHeldOut);
  for (int64_t i = 0; i < held_out.size(); i += stride) indices.push_back(i);
  return std::make_shared<const data::ImageSet>(held_out.subset(std::move(indices)), format,
                                                /*most_bytes=*/0);
}

class Trial {
 public:
  Trial(const Prepared& prepared, const data::Dataset& held_out, int64_t ranks, std::stop_token stop)
      : prepared_(prepared),
        workers_(std::max<int64_t>(1, prepared.plan.machine.workers / ranks)),
        stop_(std::move(stop)),
        held_out_(part_of_held_out(held_out, prepared.plan.data.format)) {}

  PrecisionProbe run(Precision precision, int64_t steps) {
    Plan plan = prepared_.plan;
    plan.step.precision = precision;
    plan.length.patience = 0;
    plan.length.max_time = 0;
    plan.length.pause_after_step = 0;
    plan.update.rate_test_steps = 0;
    // Not worth their preparation for a few steps.
    plan.network.keep_features = plan.machine.resident = plan.machine.cuda_graphs = false;
    if (plan.machine.device != "cpu") plan.machine.workers = workers_;
    plan.length.max_epochs = divided_up(steps, plan.length.steps_per_epoch);
    plan.length.total_steps = plan.length.validate_every = plan.record.checkpoint_every =
        plan.record.hash_every = steps;
    const std::unique_ptr<comm::Communicator> alone = comm::make_communicator();
    Training training({.plan = plan,
                       .network = prepared_.network,
                       .train = prepared_.train,
                       .validation = held_out_,
                       .stop = stop_,
                       .comm = *alone},
                      first_instance(prepared_.network, plan.network, plan.step.seed));
    if (training.run() == EndReason::stopped)
      throw Error(ErrorCode::cancelled,
                  "stopped during a trial for --precision auto; no training step was done");
    return {training.images_per_second(), training.state().validation_accuracy};
  }

  /// After the same steps in float32: corrupt_data then means the loss, not the data.
  PrecisionProbe run_half(int64_t steps) {
    try {
      return run(Precision::bf16_mixed, steps);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::corrupt_data) throw;
      return {0, std::numeric_limits<double>::quiet_NaN()};
    }
  }

  int64_t held_out_count() const { return held_out_->size(); }

 private:
  const Prepared& prepared_;
  const int64_t workers_;  // of this GPU
  std::stop_token stop_;
  std::shared_ptr<const data::ImageSet> held_out_;
};

PrecisionChoice try_precisions(const Prepared& prepared, const PrecisionRequest& request) {
  Trial trial(prepared, request.held_out, request.ranks, request.stop);
  const double speed = trial.run(Precision::single, 3).images_per_second;
  const double fitting = kProbeSeconds * speed / static_cast<double>(prepared.plan.step.mini_batch_size);
  const int64_t steps = std::clamp(static_cast<int64_t>(fitting), kFewestProbeSteps, kMostProbeSteps);
  const PrecisionProbe single = trial.run(Precision::single, steps), half = trial.run_half(steps);
  PrecisionChoice choice = choose_precision(single, half, trial.held_out_count());
  choice.reason += "; a trial of " + std::to_string(steps) + " steps";
  return choice;
}

}  // namespace

PrecisionChoice choose_precision(const PrecisionProbe& single, const PrecisionProbe& half, int64_t held_out) {
  if (std::isnan(half.accuracy)) return {Precision::single, "in bf16-mixed the loss became NaN or infinite"};
  if (!(single.images_per_second > 0)) return {Precision::single, "float32's speed could not be measured"};
  const double gain = half.images_per_second / single.images_per_second;
  const double error = std::sqrt(single.accuracy * (1 - single.accuracy) / static_cast<double>(held_out));
  const bool faster = gain >= kLeastGain, as_good = half.accuracy >= single.accuracy - error;
  return {faster && as_good ? Precision::bf16_mixed : Precision::single,
          "bf16-mixed is " + fixed(gain, 2) + " times as fast" +
              (!faster   ? ", which is too little"
               : as_good ? " and as accurate"
                         : ", but less accurate") +
              ": held-out accuracy " + fixed(half.accuracy, 4) + " against " + fixed(single.accuracy, 4)};
}

// LibTorch's convolutions and products of float16 do not use a processor's vector units.
std::string slow_precision_reason(const Plan& plan) {
  const bool slow = plan.step.precision == Precision::fp16_mixed && plan.machine.device == "cpu";
  return slow ? "for GPUs; on a processor about a hundred times slower than 32-true" : "";
}

bool has_bf16_units(const device::Inventory& inventory) {
  return std::any_of(inventory.vector_units.begin(), inventory.vector_units.end(),
                     [](const std::string& unit) { return unit == "avx512_bf16" || unit == "amx_bf16"; });
}

PrecisionChoice resolve_precision(const Prepared& prepared, const PrecisionRequest& request) {
  const Plan& plan = prepared.plan;
  if (plan.data.streamed) return {Precision::single, "a trial would take mini-batches from the iterator"};
  if (plan.data.format.kind == data::SampleKind::sequence)
    return {Precision::single, "recurrent layers run in float32"};
  if (request.earlier != nullptr) {
    const bool half = request.earlier->step.precision == Precision::bf16_mixed;
    return {half ? Precision::bf16_mixed : Precision::single, "as when the run began"};
  }
  if (plan.machine.device == "cpu" && !request.has_bf16_units)
    return {Precision::single, "this processor has neither AMX nor AVX512_BF16"};
  if (request.held_out.empty())
    return {Precision::single, "bf16-mixed cannot be judged without held-out images"};
  return try_precisions(prepared, request);
}

}  // namespace lockstep::train
