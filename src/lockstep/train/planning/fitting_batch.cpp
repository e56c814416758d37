#include "lockstep/train/planning/fitting_batch.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <ATen/Parallel.h>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/share.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/thread_group.h"
#include "lockstep/device/gpu.h"
#include "lockstep/device/tensor_meter.h"
#include "lockstep/nn/layers.h"
#include "lockstep/train/options/number_type.h"
#include "lockstep/train/update/optimizer.h"
#include "lockstep/train/options/placement.h"
#include "lockstep/train/step/shard_probe.h"

namespace lockstep::train {
namespace {

constexpr int64_t kFewSamples = 4;  // of the measured shards, in each piece of an accumulation
constexpr int64_t kManySamples = 16;
constexpr int64_t kFewCores = 8;      // a machine with fewer counts as one with so many
constexpr int64_t kFewestSteps = 10;  // per epoch
// The share of the memory that --memory-share leaves free, or of a GPU's. Libraries' scratch memory,
// fragmentation and the program itself need the rest.
constexpr double kUsed = 0.8;
// The memory of a process for shards, as a multiple of their tensors: kernels have scratch memory that is not
// in tensors, and memory is fragmented. With squeezenet at 64x64 and 8 shards at once, a process grew by 865
// MB from 16 samples to 512; tensors are about half of that.
constexpr double kBeyondTensors = 2;

// Each replica has its own mini-batch.
int64_t filled_shards(const Plan& plan, int64_t shards, int64_t samples) {
  return plan.exchange.averages() ? shards : used_shards(shards, samples);
}

int64_t shards_for(const Plan& plan, int64_t samples) {
  const int64_t shards =
      plan.step.shards > 0 ? plan.step.shards : default_shards(plan, plan.machine.device, samples);
  return filled_shards(plan, shards, samples);
}

}  // namespace

ShardMemory measure_shard_memory(const nn::Network& network, const Plan& plan) {
  double few = 0, many = 0;
  Plan alone = plan;
  alone.network.module_together = false;  // its proof would be measured, too
  comm::ThreadGroup(1).run([&](Share) {
    at::set_num_threads(1);
    device::TensorMeter meter;
    const ShardProbe probe(network, alone, FrozenSamples::all);
    const std::unique_ptr<ShardRunner> runner = probe.make_runner();
    const auto most_of = [&](int64_t samples) {
      const data::Shard shard =
          made_up_shard(plan, samples * plan.step.accumulate, plan.network.input.time_steps);
      const int64_t before = meter.now();
      meter.take_most();
      probe.train(*runner, shard);
      return static_cast<double>(meter.take_most() - before);
    };
    most_of(kFewSamples);  // allocates gradients and what modules keep
    few = most_of(kFewSamples);
    many = most_of(kManySamples);
  });
  const double each =
      std::max(0.0, many - few) / static_cast<double>((kManySamples - kFewSamples) * plan.step.accumulate);
  return {std::max(0.0, few - each * static_cast<double>(kFewSamples * plan.step.accumulate)), each};
}

double step_memory(const Plan& plan, const ShardMemory& shard, int64_t samples) {
  const bool averages = plan.exchange.averages(), on_gpu = plan.machine.device != "cpu";
  const int64_t shards = shards_for(plan, samples);
  const double in_shard = averages ? static_cast<double>(samples)
                                   : std::ceil(static_cast<double>(samples) / static_cast<double>(shards));
  const int64_t at_once = on_gpu ? 1 : std::min(shards, std::max(kFewCores, plan.machine.cores));
  const double vector = static_cast<double>(plan.network.learned_count * number_bytes(plan.step.precision));
  const double gradients = static_cast<double>(at_once) * vector;
  // Sums of gradients: on a CPU one buffer for each shard, on a GPU one for each level of the tree.
  const double nodes = vector * (on_gpu ? std::ceil(std::log2(static_cast<double>(shards))) + 1
                                        : static_cast<double>(at_once));
  const double weights =
      static_cast<double>(plan.network.parameter_count * number_bytes(plan.step.precision)) +
      vector * static_cast<double>(rule_of(plan.update).state_count() + 1) *
          static_cast<double>(averages ? shards : 1);
  const double image =
      static_cast<double>(plan.data.format.kind == data::SampleKind::sequence
                              ? 4 * plan.network.input.channels * plan.network.input.time_steps
                              : plan.data.format.size().bytes());
  const double read_ahead = on_gpu ? 0
                                   : static_cast<double>(plan.machine.read_ahead + 2) * image * in_shard *
                                         static_cast<double>(shards);
  const double samples_at_once = on_gpu ? in_shard : in_shard * static_cast<double>(shards);
  return weights + nodes + gradients + read_ahead +
         kBeyondTensors * (static_cast<double>(at_once) * shard.fixed + shard.each_sample * samples_at_once);
}

double least_step_memory(const Plan& plan, const nn::Network& network, double ranks_share) {
  if (plan.data.format.kind == data::SampleKind::sequence) return 0;
  const double images = static_cast<double>(plan.step.mini_batch_size * plan.data.format.size().bytes());
  double kept = 0;  // of one sample
  if (!network.spec().is_null() && plan.network.learned_count == plan.network.parameter_count) {
    std::map<std::string, double> sizes{
        {"input", static_cast<double>(plan.network.input.channels * plan.network.input.height *
                                      plan.network.input.width)}};
    std::set<std::string> read;
    for (const nn::LayerRow& row : nn::inspect_network(network, plan.network.input).rows) {
      sizes[row.name] = static_cast<double>(c10::multiply_integers(row.shape));
      const bool has_weights =
          std::any_of(row.learnables.begin(), row.learnables.end(),
                      [](const nn::LayerTensor& tensor) { return tensor.shape.size() > 1; });
      if (has_weights) read.insert(row.inputs.begin(), row.inputs.end());
    }
    for (const std::string& name : read) kept += sizes[name];
  }
  const int64_t shards = filled_shards(plan, plan.step.shards, plan.step.mini_batch_size);
  const int64_t at_once =
      plan.step.mini_batch_size / shards / plan.step.accumulate * std::min(plan.machine.workers, shards);
  const int64_t bytes = is_mixed(plan.step.precision) ? 2 : number_bytes(plan.step.precision);
  return ranks_share * (images + static_cast<double>(at_once) * kept * static_cast<double>(bytes));
}

void check_step_memory(const Plan& plan, const nn::Network& network, double ranks_share,
                       const device::Inventory& inventory) {
  if (plan.machine.device != "cpu") return;
  const double least = least_step_memory(plan, network, ranks_share);
  if (least <= static_cast<double>(inventory.memory_bytes)) return;
  throw Error(ErrorCode::out_of_memory,
              "a step takes at least " + as_bytes(static_cast<int64_t>(least)) +
                  " of memory, and this machine has " + as_bytes(inventory.memory_bytes) + ": " +
                  counted(plan.step.mini_batch_size, "image") + " of " +
                  std::to_string(plan.data.format.height) + "x" + std::to_string(plan.data.format.width) +
                  " in a mini-batch, " + counted(plan.step.shards, "shard") + ", " +
                  counted(plan.machine.workers, "worker"),
              "a smaller --image-size or --mini-batch-size, more --shards, or --accumulate");
}

MemoryBudget memory_budget(const MachinePlan& machine, double memory_share,
                           const device::Inventory& inventory) {
  if (machine.device != "cpu") {
    const device::GpuMemory memory = device::gpu_library().memory(machine.gpu);
    return {kUsed * static_cast<double>(memory.free),
            fixed(kUsed, 1) + " of the " + as_bytes(memory.free) + " that are free on the GPU"};
  }
  const double share = kUsed * (1 - memory_share);
  return {share * static_cast<double>(inventory.free_memory_bytes),
          fixed(share, 2) + " of the " + as_bytes(inventory.free_memory_bytes) +
              " that are free; --memory-share reserves the rest"};
}

FittingBatch fitting_batch(const Plan& plan, const ShardMemory& shard, double budget) {
  const auto bytes = [&](int64_t samples) {
    return as_bytes(static_cast<int64_t>(step_memory(plan, shard, samples)));
  };
  if (step_memory(plan, shard, 1) > budget) {
    throw Error(ErrorCode::out_of_memory,
                "--mini-batch-size auto finds no mini-batch that fits: a step of one sample takes " +
                    bytes(1) + ", and the limit is " + as_bytes(static_cast<int64_t>(budget)),
                "smaller images, --shards 1, or a smaller --memory-share");
  }
  const auto leaves_steps = [&](int64_t samples) {
    const int64_t replicas = plan.exchange.averages() ? shards_for(plan, samples) : 1;
    return samples * replicas * kFewestSteps <= plan.data.train_count;
  };
  int64_t samples = 1;
  while (leaves_steps(samples * 2) && step_memory(plan, shard, samples * 2) <= budget) samples *= 2;
  const std::string twice = !leaves_steps(samples * 2)
                                ? "leave an epoch fewer than " + std::to_string(kFewestSteps) + " steps"
                                : "take " + bytes(samples * 2);
  // The mini-batch decides the weights, so it must not depend on the number of workers.
  const int64_t shards = shards_for(plan, samples);
  const std::string most =
      plan.machine.device == "cpu" && shards > 1
          ? " with its " + std::to_string(shards) + " shards at once, and less with fewer workers"
          : "";
  return {samples, "auto: a step takes about " + bytes(samples) + most + "; twice as many would " + twice};
}

}  // namespace lockstep::train
