// What a loop of one's own is given of a shard: the network's input and targets, in the order, type and place
// that were asked for.
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

/// Makes input and target of one shard's images, u8 [b,C,H,W], and labels, int64 [b], both on the host; of
/// sequences as Shard has them. Called by the thread that takes the mini-batch.
using Collate = std::function<Collated(const at::Tensor& images, const at::Tensor& target)>;

/// Dimensions are labelled as in base/dimensions.h.
struct ShardOutput {
  std::string format = {};  ///< order of the input's dimensions, as "SSCB"; empty: "BCSS", of sequences
                            ///< "BCT", and what `collate` gives is not looked at
  std::string target_format = {};  ///< "CB" or "BC" with one_hot, else "B", with a T where each time step has
                                   ///< a class; empty: "BC", "B", "BCT" or "BT"
  bool one_hot = false;  ///< targets are rows of zeros with a one, of the input's type, instead of the
                         ///< classes' numbers; without a class zeros alone
  at::ScalarType type = at::kFloat;
  OutputDevice device = OutputDevice::auto_;  ///< auto: the rank's GPU if there is one, else the CPU
  std::optional<at::Device> chosen_device =
      {};  ///< instead of `device`, a GPU by its index: worker.device() in a task, for each of parfeval's
           ///< workers is rank 0 of its own group
  std::vector<double> mean = {};       ///< per channel, of pixels / 255; empty: nothing is subtracted
  std::vector<double> deviation = {};  ///< per channel; empty: nothing is divided
  Collate collate = {};  ///< in place of all but formats and device; formats are then those of what it gives
};

/// Throws invalid_option for formats that the samples of this dataset, which has some, and their labels
/// cannot have.
void check_output(const ShardOutput& output, const Dataset& dataset);

/// Throws device when a GPU was asked for and this rank has none.
at::Device resolve_device(const ShardOutput& output, Share share);

/// Fills in shard.input, and shard.target anew.
void give_input(Shard& shard, const ShardOutput& output, at::Device device, int64_t classes);

}  // namespace lockstep::data
