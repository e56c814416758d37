// Where a run computes: the execution environment resolved for this machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "lockstep/device/inventory.h"
#include "lockstep/device/jpeg_decoder.h"
#include "lockstep/train/options/options.h"

namespace lockstep::train {

struct Plan;

struct Placement {
  std::string device = "cpu";    ///< "cpu" or "cuda"
  std::vector<int64_t> devices;  ///< the GPUs of this process, each with the same number of workers
  int64_t gpu = -1;              ///< the one of `devices` that this rank uses; without ranks the first
  int64_t workers = 1;           ///< of all ranks
  int64_t cores = 1;             ///< that may be used
  std::string device_reason;
  std::string workers_reason;
};

/// The ranks that train together; without a group this process has the machine for itself.
struct Ranks {
  bool grouped = false;
  int64_t count = 1;
  std::string way{};        ///< how they communicate
  int64_t here = 0;         ///< index of this rank among those of its machine, which decides its GPU
  bool is_gpu = false;      ///< each rank is a GPU of one process; --workers then counts the workers of all
  bool needs_gpus = false;  ///< no rank may compute on a CPU
};

/// Reads execution, workers and devices. If a requested GPU does not exist, this throws an error of code
/// device; it never falls back to the CPU. Workers take GPUs in turn: with fewer workers than GPUs some GPUs
/// stay free, with more workers they share. In a group of processes --workers applies to each rank (default
/// one), and the workers of a rank share its GPU: the n-th rank of a machine has its n-th usable GPU.
Placement resolve_placement(const Options& options, int64_t shards, const device::Inventory& inventory,
                            Ranks ranks = {});

/// Whether the weights are the same however the shards are dealt to the ranks.
bool any_deal_is_right(const Plan& plan);

/// MachinePlan::rank_loads. Throws invalid_option if --worker-load does not fit this number of ranks, or the
/// way in which they train.
std::vector<int64_t> rank_loads(const Options& options, const Plan& plan, int64_t ranks);

/// Whether a process of a launcher has no GPU to train on, because those of its machine are those of the
/// processes before it. here: its index among those of its machine; told: GPUs of all of them together, 0 if
/// not known.
bool has_no_gpu_left(const Options& options, const device::Inventory& inventory, int64_t here, int64_t told);

/// The CPU, or a GPU by its index. Opening a GPU restricts the process to deterministic kernels.
/// kind: as in Placement and Plan.
at::Device open_device(const std::string& kind, int64_t gpu);

/// The decoder of JPEG files on the placement's GPUs; it lives as long as the process. Throws device if there
/// are no GPUs or no nvJPEG.
const device::JpegDecoder* open_jpeg_decoder(const Placement& placement);

/// Why workers compute each shard alone, for "because of ..."; empty: they compute several at once, as far as
/// is known without the layers' inputs. Of the plan only network, data, step and exchange are read.
///   device  as in Placement
std::string why_shards_alone(const Plan& plan, const std::string& device);
/// The same without a backward pass, in validation and inference. Of the plan only network and step are read.
std::string why_evaluated_alone(const Plan& plan, const std::string& device);

/// The default number of shards of a mini-batch: a function of network, options, kind of device and
/// mini-batch, never of the number of cores or GPUs. If each shard is computed alone, a large network has
/// fewer: each worker adds the gradients of its shards, so their cost grows with the number of learnables.
int64_t default_shards(const Plan& plan, const std::string& device, int64_t mini_batch_size);

}  // namespace lockstep::train
