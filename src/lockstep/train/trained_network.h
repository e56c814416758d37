// A trained network as a value: what a task gives back, or keeps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/describe.h"
#include "lockstep/train/fit.h"
#include "lockstep/train/predict.h"

namespace lockstep::train {

/// One tensor of a network's state, on the CPU.
struct NamedWeight {
  std::string name{};
  at::Tensor values{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("name", self.name, "as in PyTorch's state_dict");
    field("values", self.values, "");
  };
};

/// All that prediction needs. A member of a task's result, it travels between processes: fields as JSON, tensors as safetensors.
struct TrainedNetwork {
  std::string name{};
  std::string graph{};
  int64_t channels = 1;
  int64_t height = 28;
  int64_t width = 28;
  data::Resize resize = data::Resize::stretch;
  std::vector<int64_t> resize_to{};
  data::Decode decode = data::Decode::exact;
  std::vector<double> mean{};
  std::vector<double> deviation{};
  std::vector<std::string> classes{};
  std::vector<NamedWeight> weights{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("name", self.name, "the network's");
    field("graph", self.graph, "its layer graph as JSON; empty for a C++ module");
    field("channels", self.channels, "of its pictures");
    field("height", self.height, "");
    field("width", self.width, "");
    field("resize", self.resize, "how pictures of another size are fitted");
    field("resize_to", self.resize_to, "height and width before the centre is cut out; empty: it is not");
    field("decode", self.decode, "how photographs become pixels");
    field("mean", self.mean, "of pixels / 255, per channel");
    field("deviation", self.deviation, "");
    field("classes", self.classes, "in the order of the network's outputs");
    field("weights", self.weights, "and running statistics");
  };
};

/// The network that a fit has made (weights: "last" or "best"), read from its run folder.
TrainedNetwork trained_network(const Result& result, const std::string& weights = "last");

/// For predict. own: the network, where it is a C++ module. Throws invalid_option when that is needed and not given.
Model model_of(const TrainedNetwork& trained, const nn::Network& own = {});

}  // namespace lockstep::train
