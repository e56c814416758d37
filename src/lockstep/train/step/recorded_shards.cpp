#include "lockstep/train/step/recorded_shards.h"

#include <algorithm>
#include <exception>

#include <ATen/Functions.h>

#include "lockstep/data/transform.h"
#include "lockstep/device/failure.h"

namespace lockstep::train {
namespace {

constexpr int64_t kRehearsals = 3;  // as in PyTorch's make_graphed_callables
constexpr size_t kMostSizes = 2;    // a full mini-batch has shards of at most two sizes

}  // namespace

std::string recording_obstacle(const Plan& plan, const std::vector<nn::InstanceLayer>& steps, int64_t ranks) {
  if (plan.machine.device == "cpu") return "there is no GPU in use";
  if (plan.data.format.kind == data::SampleKind::sequence) return "sequences have different lengths";
  if (plan.exchange.averages()) return "replicas have weights of their own";
  if (plan.machine.workers > ranks) return "several workers share a GPU";
  if (plan.record.detect_anomaly) return "--detect-anomaly looks at each layer";
  if (plan.step.accumulate > 1) return "--accumulate cuts shards into pieces";
  if (plan.network.keep_features) return "the output of frozen layers is kept";
  if (plan.data.augment.mixup > 0) return "mixup has two targets for each image";
  if (steps.empty()) return "your own module may read from the GPU in the middle of a step";
  const auto random =
      std::find_if(steps.begin(), steps.end(), [](const nn::InstanceLayer& step) { return step.random; });
  return random == steps.end() ? "" : "layer \"" + random->name + "\" draws random numbers";
}

RecordedShards::RecordedShards(RecordingOptions options, Work work)
    : options_(std::move(options)), work_(std::move(work)) {}

RecordedShards::Size* RecordedShards::size_for(const at::Tensor& input) {
  if (!is_on()) return nullptr;
  const auto known = sizes_.find(input.size(0));
  if (known != sizes_.end())
    return known->second.pass.input.sizes() == input.sizes() ? &known->second : nullptr;
  if (sizes_.size() == kMostSizes) return nullptr;
  const at::ScalarType wide = input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  Size& size = sizes_[input.size(0)];
  size.pass.input = at::empty_like(input);
  size.pass.target = at::empty({input.size(0)}, input.options().dtype(at::kLong));
  size.pass.scale = at::empty({}, input.options().dtype(wide));
  size.graph = options_.make_graph();
  return &size;
}

const RecordedPass* RecordedShards::run(const at::Tensor& input, const at::Tensor& target, double scale) {
  Size* size = size_for(input);
  if (size == nullptr) return nullptr;
  RecordedPass& pass = size->pass;
  pass.input.copy_(input);
  pass.target.copy_(target, /*non_blocking=*/true);
  pass.scale.fill_(scale);
  const auto work = [this, &pass] { work_(pass); };
  if (size->runs < kRehearsals) {
    size->graph->rehearse(work);
  } else {
    try {
      if (size->runs == kRehearsals) size->graph->record(work);
    } catch (...) {
      if (options_.warn)
        options_.warn(
            "--cuda-graphs does nothing from here on, for shards of " + std::to_string(input.size(0)) +
            " samples could not be recorded: " + device::error_of(std::current_exception()).message());
      options_.make_graph = {};
      sizes_.clear();
      return nullptr;
    }
    size->graph->replay();
  }
  ++size->runs;
  return &pass;
}

}  // namespace lockstep::train
