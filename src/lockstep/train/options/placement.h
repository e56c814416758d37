// Where work runs: the execution environment resolved against what this machine has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "lockstep/device/inventory.h"
#include "lockstep/device/jpeg_decoder.h"
#include "lockstep/train/options/options.h"

namespace lockstep::train {

struct Placement {
  std::string device = "cpu";    ///< "cpu" or "cuda"
  std::vector<int64_t> devices;  ///< the GPUs of this process, each with as many of its workers as any other
  int64_t gpu = -1;              ///< of `devices`, this rank's; else the first
  int64_t workers = 1;           ///< of all ranks
  int64_t cores = 1;             ///< that may be used
  std::string device_reason;
  std::string workers_reason;
};

/// The ranks that train together; without a group this process is alone and has the machine.
struct Ranks {
  bool grouped = false;
  int64_t count = 1;
  std::string way{};    ///< what carries their words
  int64_t here = 0;     ///< this one's place among those of its machine, which decides its GPU
  bool is_gpu = false;  ///< each is a GPU of one process, whose --workers are those of all
};

/// Reads execution, workers and devices. A GPU that was asked for and is not there is an error of code
/// device, never a silent CPU. Workers take GPUs in turn: with fewer workers than GPUs some stay free, with
/// more they share. In a group of processes --workers is for each rank, one unless it says more, and the
/// rank's workers share its GPU, the machine's next one that may be used.
Placement resolve_placement(const Options& options, int64_t shards, const device::Inventory& inventory,
                            Ranks ranks = {});

/// The CPU, or a GPU by its index, which is opened: the process is then held to kernels that repeat.
/// kind: as in Placement (and Plan).
at::Device open_device(const std::string& kind, int64_t gpu);

/// What decodes JPEG files on the placement's GPUs, for the life of the process. Throws device where there
/// are none, or no nvJPEG.
const device::JpegDecoder* open_jpeg_decoder(const Placement& placement);

/// How many shards a mini-batch is cut into unless the user says: a function of the network's size and the
/// mini-batch, never of the machine. Each worker adds its shards' gradients, so what shards cost grows with
/// the parameters, and what they give (cache, workers) does not.
int64_t default_shards(int64_t parameter_count, int64_t mini_batch_size);

}  // namespace lockstep::train
