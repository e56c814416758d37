// A trained network as a value: what a task gives back, or keeps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/describe.h"
#include "lockstep/train/run/fit.h"
#include "lockstep/train/inference/predict.h"

namespace lockstep::train {

class BuiltModel;

/// One tensor of a network's state, on the CPU.
struct NamedWeight {
  std::string name{};
  at::Tensor values{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("name", self.name, "as in PyTorch's state_dict");
    field("values", self.values, "");
  };
};

/// All that prediction needs. A member of a task's result, it travels between processes: fields as JSON,
/// tensors as safetensors.
struct TrainedNetwork {
  std::string name{};
  std::string graph{};
  int64_t channels = 1;
  int64_t height = 28;
  int64_t width = 28;
  int64_t time_steps = 0;
  bool labels_time_steps = false;
  data::PaddingSide padding = data::PaddingSide::right;
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
    field("channels", self.channels, "of its images");
    field("height", self.height, "");
    field("width", self.width, "");
    field("time_steps", self.time_steps, "of the longest of its sequences; 0: it takes images");
    field("labels_time_steps", self.labels_time_steps, "whether each time step has a class");
    field("padding", self.padding, "where sequences are padded");
    field("resize", self.resize, "how images of another size are fitted");
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

/// A model with its weights, which are read from its file where they do not lie in memory.
TrainedNetwork trained_network(const Model& model);

/// What a custom loop knows beside its model (custom/built_model.h).
struct TrainedAs {
  std::vector<std::string> classes = {};  ///< in the order of the network's outputs; empty: those of the
                                          ///< dataset that the model was built for, else numbers
  std::vector<double> mean = {};          ///< as the loop's ShardOutput has them
  std::vector<double> deviation = {};
  data::Resize resize = data::Resize::stretch;
  data::PaddingSide padding = data::PaddingSide::right;
};

/// The network that a custom loop has trained, as it is now, to be returned from the task. Its tensors are
/// copies, so the loop may go on.
TrainedNetwork trained_network(const BuiltModel& model, const TrainedAs& as = {});

/// For predict. own: the network, where it is a C++ module. Throws invalid_option when that is needed and not
/// given.
Model model_of(const TrainedNetwork& trained, const nn::Network& own = {});

}  // namespace lockstep::train
