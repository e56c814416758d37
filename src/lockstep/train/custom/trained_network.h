// A trained network as a value, which a task can return or keep.
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

/// Everything that prediction needs. It can be a member of a task's result: between processes its fields are
/// sent as JSON and its tensors as safetensors.
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

/// The network that a fit has trained, read from its run folder. weights: "last" or "best".
TrainedNetwork trained_network(const Result& result, const std::string& weights = "last");

/// A model with its weights, which are read from its file unless they are in memory.
TrainedNetwork trained_network(const Model& model);

/// Further properties of a custom loop's model (custom/built_model.h).
struct TrainedAs {
  std::vector<std::string> classes = {};  ///< in the order of the network's outputs; empty: the classes of
                                          ///< the dataset for which the model was built, otherwise numbers
  std::vector<double> mean = {};          ///< as in the loop's ShardOutput
  std::vector<double> deviation = {};
  data::Resize resize = data::Resize::stretch;
  data::PaddingSide padding = data::PaddingSide::right;
};

/// The network that a custom loop trains, in its current state, for a task's result. Its tensors are copies,
/// so the loop may continue.
TrainedNetwork trained_network(const BuiltModel& model, const TrainedAs& as = {});

/// For predict. own: the network, if it is a C++ module. Throws invalid_option if it is needed and not given.
Model model_of(const TrainedNetwork& trained, const nn::Network& own = {});

}  // namespace lockstep::train
