#include "lockstep/train/options/placement.h"

#include <algorithm>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/device/gpu.h"
#include "lockstep/train/options/plan.h"

namespace lockstep::train {
namespace {

// Learnables up to which a mini-batch has 8, then 4, then 2 shards, if each shard's gradients go through
// memory; docs/shards.md has the measurements.
constexpr int64_t kEightShards = 4'000'000;
constexpr int64_t kFourShards = 16'000'000;
constexpr int64_t kSamplesPerShard = 4;
// Of a mini-batch whose shards are computed at once: 3 to 8, 16 and 32 workers are busy for 89 % of the time.
constexpr int64_t kShardsTogether = 32;

std::vector<int64_t> chosen_gpus(const Options& options, const device::Inventory& inventory) {
  const std::string wanted = enum_names(options.execution)[static_cast<size_t>(options.execution)];
  if (inventory.gpus.empty()) {
    throw Error(
        ErrorCode::device,
        options.devices.empty()
            ? "--execution " + wanted + " needs a GPU, and there is none to use: " + inventory.gpu_note
            : "--devices names a GPU, and there is none to use: " + inventory.gpu_note,
        join({inventory.gpu_hint, "--execution cpu needs none"}, "; "));
  }
  std::vector<int64_t> devices;
  for (const int64_t index : options.devices) {
    if (std::none_of(inventory.gpus.begin(), inventory.gpus.end(),
                     [&](const device::Gpu& gpu) { return gpu.index == index; })) {
      throw Error(ErrorCode::device,
                  "there is no GPU " + std::to_string(index) + ": this machine has " +
                      std::to_string(inventory.gpus.size()),
                  "GPUs count from 0; lockstep doctor lists them");
    }
    if (std::find(devices.begin(), devices.end(), index) != devices.end())
      throw Error(ErrorCode::invalid_option, "--devices names GPU " + std::to_string(index) + " twice");
    devices.push_back(index);
  }
  if (devices.empty()) {
    for (const device::Gpu& gpu : inventory.gpus) devices.push_back(gpu.index);
  }
  return devices;
}

// Each kind rounds in its own way, so the weights would depend on which GPU has which shard.
void check_kinds(const std::vector<int64_t>& gpus, const device::Inventory& inventory) {
  const device::Gpu* first = nullptr;
  for (const device::Gpu& gpu : inventory.gpus) {
    if (std::find(gpus.begin(), gpus.end(), gpu.index) == gpus.end()) continue;
    if (first == nullptr) first = &gpu;
    if (gpu.name == first->name && gpu.capability == first->capability) continue;
    throw Error(ErrorCode::device,
                "GPU " + std::to_string(first->index) + " (" + first->name + ") and GPU " +
                    std::to_string(gpu.index) + " (" + gpu.name +
                    ") are of different kinds, which give different bits",
                "--devices names GPUs of one kind");
  }
}

std::string on_gpus(int64_t workers, int64_t gpus) {
  if (workers == 1) return "one for the GPU";
  if (workers == gpus) return "one for each GPU";
  return std::to_string(workers / gpus) + (gpus == 1 ? " share the GPU" : " share each GPU");
}

void place_on_gpus(Placement& placement, const Options& options, const device::Inventory& inventory) {
  std::vector<int64_t> gpus = chosen_gpus(options, inventory);
  const bool all = options.execution == Execution::multi_gpu || options.execution == Execution::parallel ||
                   !options.devices.empty();
  const auto most = static_cast<int64_t>(gpus.size());
  placement.workers = options.workers > 0 ? options.workers : all ? most : 1;
  const int64_t used = std::min(placement.workers, most);
  if (placement.workers % used != 0) {
    const int64_t fewer = placement.workers / used * used;
    throw Error(
        ErrorCode::invalid_option,
        std::to_string(placement.workers) + " workers cannot share " + std::to_string(used) + " GPUs evenly",
        "--workers " + std::to_string(fewer) + " or " + std::to_string(fewer + used) +
            ", or name other --devices; the weights are the same for any number");
  }
  gpus.resize(static_cast<size_t>(used));
  check_kinds(gpus, inventory);
  placement.devices = std::move(gpus);
  placement.workers_reason = (options.workers > 0 ? "asked for; " : "") + on_gpus(placement.workers, used);
}

// A launcher may show each rank no GPU but its own.
void place_rank_on_gpu(Placement& placement, const Options& options, const device::Inventory& inventory,
                       const Ranks& ranks) {
  const std::vector<int64_t> gpus = chosen_gpus(options, inventory);
  const int64_t place = inventory.gpus.size() == 1 ? 0 : ranks.here;
  if (place >= static_cast<int64_t>(gpus.size())) {
    throw Error(ErrorCode::device,
                "there are " + std::to_string(gpus.size()) +
                    " GPUs to use on this machine, and more ranks: one has none",
                "start a rank for each GPU (the workers of a rank share its GPU), or add --execution cpu");
  }
  const int64_t each = std::max<int64_t>(1, options.workers);
  placement.devices = {gpus[static_cast<size_t>(place)]};
  placement.workers = each * ranks.count;
  placement.workers_reason = (options.workers > 0 ? "asked for; " : "") + on_gpus(each, 1) + " of each of " +
                             std::to_string(ranks.count) + " ranks, over " + ranks.way;
}

void place_ranks(Placement& placement, const Options& options, const device::Inventory& inventory,
                 const Ranks& ranks) {
  if (ranks.needs_gpus)
    throw Error(
        ErrorCode::device,
        "fast-multinode is on: machines send gradients from GPU to GPU by NCCL, and this rank " +
            std::string(options.execution == Execution::cpu ? "is asked to train on the CPU" : "has no GPU"),
        "ask for GPUs in the profile (gpus), or set fast-multinode to auto or off");
  const int64_t each = std::max<int64_t>(1, options.workers);
  placement.workers = each * ranks.count;
  placement.workers_reason = std::to_string(each) + (options.workers > 0 ? " asked for" : "") +
                             " on each of " + std::to_string(ranks.count) + " ranks, over " + ranks.way;
  if (each > inventory.cores)
    placement.workers_reason +=
        "; more than the " + counted(inventory.cores, "core") + " that may be used, so they take turns";
}

void place_on_cores(Placement& placement, const Options& options, int64_t shards,
                    const device::Inventory& inventory) {
  const int64_t cores = inventory.cores;
  if (options.workers > 0) {
    placement.workers = options.workers;
    placement.workers_reason = "asked for";
    if (options.workers > cores)
      placement.workers_reason +=
          "; more than the " + counted(cores, "core") + " that may be used, so they take turns";
    return;
  }
  placement.workers = std::min(cores, shards);
  placement.workers_reason = "one for each core, at most one for each shard";
  if (!inventory.cores_reason.empty())
    placement.workers_reason +=
        "; of " + counted(inventory.cores_online, "core") + " " + inventory.cores_reason;
  if (cores > shards)
    placement.workers_reason +=
        "; " + std::to_string(cores - shards) +
        (cores - shards == 1 ? " core is idle, --shards " : " cores are idle, --shards ") +
        std::to_string(cores) + " would fill them";
}

}  // namespace

Placement resolve_placement(const Options& options, int64_t shards, const device::Inventory& inventory,
                            Ranks ranks) {
  Placement placement;
  placement.cores = inventory.cores;
  const bool asked = options.execution == Execution::gpu || options.execution == Execution::multi_gpu ||
                     !options.devices.empty();
  const bool found = options.execution != Execution::cpu && !inventory.gpus.empty();
  if (options.execution == Execution::cpu && !options.devices.empty())
    throw Error(ErrorCode::invalid_option, "--devices names GPUs, and --execution cpu uses none",
                "leave out one of them");
  if (asked || found) {
    placement.device = "cuda";
    const bool of_processes = ranks.grouped && !ranks.is_gpu;
    of_processes ? place_rank_on_gpu(placement, options, inventory, ranks)
                 : place_on_gpus(placement, options, inventory);
    placement.gpu = placement.devices[of_processes ? 0 : static_cast<size_t>(ranks.here)];
    placement.device_reason = asked ? "asked for" : "a GPU is there";
  } else {
    ranks.grouped ? place_ranks(placement, options, inventory, ranks)
                  : place_on_cores(placement, options, shards, inventory);
    placement.device_reason =
        options.execution == Execution::cpu ? "asked for" : "no GPU to use: " + inventory.gpu_note;
  }
  return placement;
}

bool any_deal_is_right(const Plan& plan) {
  return plan.exchange.kind == ExchangeKind::tree && !plan.data.streamed;
}

std::vector<int64_t> rank_loads(const Options& options, const Plan& plan, int64_t ranks) {
  const auto given = static_cast<int64_t>(options.worker_load.size());
  if (given == 0) return {};
  if (given != ranks)
    throw Error(ErrorCode::invalid_option,
                "--worker-load has " + std::to_string(given) +
                    (given == 1 ? " number for " : " numbers for ") + std::to_string(ranks) +
                    (ranks == 1 ? " rank" : " ranks"),
                ranks == 1 ? "leave it out: threads of a process take shards from each other"
                           : "give a number for each rank, in their order");
  if (!any_deal_is_right(plan)) {
    const std::string exchange = enum_names(plan.exchange.kind)[static_cast<size_t>(plan.exchange.kind)];
    throw Error(ErrorCode::invalid_option,
                "--worker-load changes no weights, and " +
                    (plan.data.streamed ? "this training is given its mini-batches in equal parts"
                                        : "with --exchange " + exchange + " the parts of ranks decide them"),
                "leave --worker-load out");
  }
  return options.worker_load;
}

bool has_no_gpu_left(const Options& options, const device::Inventory& inventory, int64_t here, int64_t told) {
  if (options.execution == Execution::cpu || inventory.gpus.empty()) return false;
  const auto usable = static_cast<int64_t>(chosen_gpus(options, inventory).size());
  // Each may see one alone, its own or that of all.
  return inventory.gpus.size() > 1 ? here >= usable : told == 1 && here >= 1;
}

at::Device open_device(const std::string& kind, int64_t gpu) {
  if (kind == "cpu") return at::kCPU;
  const device::GpuLibrary& library = device::gpu_library();
  library.make_repeatable();
  return library.device(gpu);
}

const device::JpegDecoder* open_jpeg_decoder(const Placement& placement) {
  if (placement.devices.empty()) {
    throw Error(ErrorCode::device,
                "--decode gpu decodes on the GPUs of the run, and this one is on the CPU (" +
                    placement.device_reason + ")",
                "use --decode exact; a run cannot change it at resume");
  }
  try {
    return &device::gpu_library().jpeg_decoder(placement.devices);
  } catch (const std::exception& error) {
    throw Error(ErrorCode::device, "--decode gpu is impossible: " + std::string(error.what()),
                "use --decode exact; if there is a CUDA 13 toolkit, scripts/setup gets nvJPEG, then run "
                "scripts/build");
  }
}

std::string why_evaluated_alone(const Plan& plan, const std::string& device) {
  const NetworkPlan& network = plan.network;
  const StepPlan& step = plan.step;
  if (device != "cpu") return "the GPU";
  if (!network.module_apart.empty()) return network.module_apart;
  if (!network.sums_shards)
    return network.input.time_steps > 0 ? "the sequences"
                                        : "a module or layer of the network that takes one shard at a time";
  if (network.frozen_layers > 0) return "the frozen first layers";
  if (step.kernels != Kernels::auto_) return "--kernels engine";
  if (step.precision != Precision::single && step.precision != Precision::bf16_mixed)
    return std::string("--precision ") + enum_names(step.precision)[static_cast<size_t>(step.precision)];
  return "";
}

std::string why_shards_alone(const Plan& plan, const std::string& device) {
  if (std::string why = why_evaluated_alone(plan, device); !why.empty()) return why;
  if (plan.exchange.averages()) return "--exchange average";
  if (plan.data.augment.mixup != 0) return "mixup";
  if (!plan.data.class_weights.empty()) return "--class-weights";
  if (plan.step.accumulate != 1) return "--accumulate";
  return "";
}

namespace {

int64_t default_shards_alone(const NetworkPlan& network, int64_t mini_batch_size) {
  const int64_t learned = network.learned_count;
  const int64_t most = network.sums_shards || learned <= kEightShards ? 8 : learned <= kFourShards ? 4 : 2;
  return std::clamp<int64_t>(mini_batch_size / kSamplesPerShard, 1, most);
}

}  // namespace

int64_t default_shards(const Plan& plan, const std::string& device, int64_t mini_batch_size) {
  return why_shards_alone(plan, device).empty()
             ? std::clamp<int64_t>(mini_batch_size / kSamplesPerShard, 1, kShardsTogether)
             : default_shards_alone(plan.network, mini_batch_size);
}

}  // namespace lockstep::train
