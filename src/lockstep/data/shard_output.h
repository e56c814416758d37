// What a custom loop gets of a shard: the network's input and targets, in the requested order, type and
// device.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/share.h"

namespace lockstep::data {

class Dataset;
struct Shard;

enum class OutputDevice { auto_, cpu, gpu };
constexpr std::array<const char*, 3> enum_names(OutputDevice) { return {"auto", "cpu", "gpu"}; }

struct Collated {
  at::Tensor input;
  at::Tensor target;
};

/// Makes the input and target of one shard from its images, u8 [b,C,H,W], and labels, int64 [b], both on the
/// host; sequences have the shapes in Shard. Called by the thread that takes the mini-batch.
using Collate = std::function<Collated(const at::Tensor& images, const at::Tensor& target)>;

/// Dimensions are labelled as in base/dimensions.h.
struct ShardOutput {
  std::string format = {};  ///< order of the input's dimensions, such as "SSCB"; empty: "BCSS", for sequences
                            ///< "BCT", and the result of `collate` is not checked
  std::string target_format = {};  ///< "CB" or "BC" with one_hot, otherwise "B", with a T if each time step
                                   ///< has a class; empty: "BC", "B", "BCT" or "BT"
  bool one_hot = false;            ///< targets are one-hot rows of the input's type instead of the
                                   ///< classes' numbers; all zeros if there is no class
  at::ScalarType type = at::kFloat;
  OutputDevice device = OutputDevice::auto_;  ///< auto: the rank's GPU if there is one, else the CPU
  std::optional<at::Device> chosen_device =
      {};  ///< replaces `device`: a GPU by its index, worker.device() in a task, because each of parfeval's
           ///< workers is rank 0 of its own group
  std::vector<double> mean = {};       ///< per channel, for pixels / 255; empty: nothing is subtracted
  std::vector<double> deviation = {};  ///< per channel; empty: nothing is divided
  Collate collate = {};  ///< replaces everything except formats and device; formats then describe its result
};

/// Throws invalid_option for formats that do not fit the samples of this dataset (which must not be empty)
/// and their labels.
void check_output(const ShardOutput& output, const Dataset& dataset);

/// Throws device if a GPU was requested and this rank has none.
at::Device resolve_device(const ShardOutput& output, Share share);

/// Fills shard.input, and replaces shard.target.
void give_input(Shard& shard, const ShardOutput& output, at::Device device, int64_t classes);

}  // namespace lockstep::data
