#include "lockstep/train/step/recorded_shards.h"

#include <algorithm>
#include <exception>

#include <ATen/Functions.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/device/failure.h"

namespace lockstep::train {
namespace {

constexpr int64_t kRehearsals = 3;  // as in PyTorch's make_graphed_callables
// A full mini-batch has shards of at most two sizes, and a worker's equal shards are cut into a few nodes.
constexpr size_t kMostSizes = 4;

// Together they have as many samples as a usual mini-batch, which is what other trainers give a GPU at once.
constexpr int64_t kMostSideBySide = 8;
constexpr double kShareSideBySide = 0.25;  // of the device's free memory: there may be several recordings
constexpr double kWorkspaces = 64 << 20;   // bytes that cuBLAS takes for each shard

// Of the outputs of all layers and of their gradients.
double bytes_of_sample(const nn::Instance& instance) {
  double count = 0;
  for (const nn::InstanceLayer& layer : instance.layers) count += static_cast<double>(layer.output_count);
  return 2 * count * sizeof(float);
}

// The first layer that draws from the device's generator. Other random layers draw for each sample.
std::string random_layer(const std::vector<nn::InstanceLayer>& layers, Kernels kernels) {
  const auto random = std::ranges::find_if(layers, [&](const nn::InstanceLayer& layer) {
    return layer.random && (!layer.keeps_shards_apart || kernels != Kernels::auto_);
  });
  return random == layers.end() ? "" : random->name;
}

// Why nothing can be recorded in a run; empty if it can.
std::string obstacle(const Plan& plan, const std::vector<nn::InstanceLayer>& layers, int64_t ranks) {
  if (plan.data.format.kind == data::SampleKind::sequence) return "sequences have different lengths";
  if (plan.exchange.averages()) return "replicas have weights of their own";
  if (plan.machine.workers > ranks) return "several workers share a GPU";
  if (plan.record.detect_anomaly) return "--detect-anomaly looks at each layer";
  if (plan.step.accumulate > 1) return "--accumulate cuts shards into pieces";
  if (plan.network.keep_features) return "the output of frozen layers is kept";
  if (plan.data.augment.mixup > 0) return "mixup has two targets for each image";
  if (!plan.data.class_weights.empty()) return "--class-weights gives each target a weight";
  return layers.empty() ? "your own module may read from the GPU in the middle of a step" : "";
}

}  // namespace

RecordingChoice choose_recording(const Plan& plan, Recording asked,
                                 const std::vector<nn::InstanceLayer>& layers, int64_t ranks) {
  if (plan.machine.device == "cpu") return {};  // a run may go on there that began on a GPU
  if (asked == Recording::off) return {.reason = "--cuda-graphs off"};
  const std::string against = obstacle(plan, layers, ranks);
  if (!against.empty()) {
    if (asked == Recording::auto_) return {.reason = against};
    throw Error(ErrorCode::invalid_option, "--cuda-graphs is impossible: " + against, "leave it out");
  }
  if (asked != Recording::side_by_side) return {.use = true, .reason = "one shard after the other"};
  const std::string random = random_layer(layers, plan.step.kernels);
  if (!random.empty())
    throw Error(
        ErrorCode::invalid_option,
        "--cuda-graphs side-by-side is impossible: layer \"" + random + "\" draws from the GPU's generator",
        "use --cuda-graphs on");
  return {.use = true, .side_by_side = true, .reason = "a worker's shards at the same time"};
}

RecordedShards::RecordedShards(RecordingOptions options, Work work)
    : options_(std::move(options)), work_(std::move(work)) {}

int64_t RecordedShards::most_side_by_side(const nn::Instance& instance, int64_t samples,
                                          size_t gradient_bytes) {
  if (!options_.side_by_side) return 1;
  if (!options_.free_bytes) return kMostSideBySide;
  if (free_bytes_ == 0) free_bytes_ = options_.free_bytes();
  const double of_shard = bytes_of_sample(instance) * static_cast<double>(samples) +
                          2 * static_cast<double>(gradient_bytes) + kWorkspaces;
  const double fitting = kShareSideBySide * static_cast<double>(free_bytes_) / of_shard;
  return std::clamp<int64_t>(static_cast<int64_t>(fitting), 1, kMostSideBySide);
}

RecordedShards::Size* RecordedShards::size_for(const Inputs& inputs) {
  if (!is_on()) return nullptr;
  const at::Tensor& input = inputs.input;
  const std::pair key{input.size(0), inputs.shards};
  const auto known = sizes_.find(key);
  if (known != sizes_.end())
    return known->second.pass.input.sizes() == input.sizes() ? &known->second : nullptr;
  if (sizes_.size() == kMostSizes) return nullptr;
  const at::ScalarType wide = input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  Size& size = sizes_[key];
  size.pass.shards = inputs.shards;
  size.pass.input = at::empty_like(input);
  size.pass.target = at::empty({input.size(0)}, input.options().dtype(at::kLong));
  size.pass.scale = at::empty({}, input.options().dtype(wide));
  if (inputs.seeds.defined())
    size.pass.seeds = at::empty(inputs.seeds.sizes(), input.options().dtype(at::kLong));
  size.graph = options_.make_graph();
  return &size;
}

const RecordedPass* RecordedShards::run(const Inputs& inputs) {
  Size* size = size_for(inputs);
  if (size == nullptr) return nullptr;
  RecordedPass& pass = size->pass;
  pass.input.copy_(inputs.input);
  pass.target.copy_(inputs.target, /*non_blocking=*/true);
  pass.scale.fill_(inputs.scale);
  if (inputs.seeds.defined()) pass.seeds.copy_(inputs.seeds, /*non_blocking=*/true);
  const auto work = [this, &pass, &graph = *size->graph] { work_(pass, graph); };
  if (size->runs < kRehearsals) {
    size->graph->rehearse(work);
  } else {
    try {
      if (size->runs == kRehearsals) size->graph->record(work);
    } catch (...) {
      if (options_.warn)
        options_.warn("nothing is recorded from here on, for " + std::to_string(inputs.shards) +
                      (inputs.shards == 1 ? " shard" : " shards") + " of " +
                      std::to_string(inputs.input.size(0) / inputs.shards) +
                      " samples could not be: " + device::error_of(std::current_exception()).message());
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
