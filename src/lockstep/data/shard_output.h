// What a loop of one's own is given of a shard: the network's input and targets, in the order, type and place that were asked for.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/share.h"

namespace lockstep::data {

struct Shard;

enum class OutputDevice { auto_, cpu, gpu };
constexpr std::array<const char*, 3> enum_names(OutputDevice) { return {"auto", "cpu", "gpu"}; }

struct Collated {
  at::Tensor input;
  at::Tensor target;
};

/// Makes input and target of one shard's pictures, u8 [b,C,H,W], and labels, int64 [b], both on the host. Called by the thread that takes the mini-batch.
using Collate = std::function<Collated(const at::Tensor& pictures, const at::Tensor& target)>;

/// Dimensions are labelled as in base/dimensions.h.
struct ShardOutput {
  std::string format = {};         ///< order of the input's dimensions, as "SSCB"; empty: "BCSS", and what `collate` gives is not looked at
  std::string target_format = {};  ///< "CB" or "BC" with one_hot, else "B"; empty: "BC" or "B"
  bool one_hot = false;            ///< targets are rows of zeros with a one, of the input's type, instead of the classes' numbers
  at::ScalarType type = at::kFloat;
  OutputDevice device = OutputDevice::auto_;  ///< auto: the rank's GPU if there is one, else the CPU
  std::vector<double> mean = {};       ///< per channel, of pixels / 255; empty: nothing is subtracted
  std::vector<double> deviation = {};  ///< per channel; empty: nothing is divided
  Collate collate = {};            ///< in place of all but formats and device; formats are then those of what it gives
};

/// Throws invalid_option for formats that pictures and their labels cannot have.
void check_output(const ShardOutput& output);

/// Throws device when a GPU was asked for and this rank has none.
at::Device resolve_device(OutputDevice device, Share share);

/// Fills in shard.input, and shard.target anew.
void give_input(Shard& shard, const ShardOutput& output, at::Device device, int64_t classes);

}  // namespace lockstep::data
