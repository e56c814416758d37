#include "lockstep/train/custom/trained_network.h"

#include "lockstep/base/counted.h"
#include "lockstep/base/counted_given.h"
#include "lockstep/base/error.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/weights_file.h"
#include "lockstep/train/custom/internal/model_parts.h"

namespace lockstep::train {

namespace {

std::string graph_of(const nn::Network& network) {
  return network.spec().is_null() ? "" : network.spec().dump();
}

at::Tensor copied(const at::Tensor& tensor) {
  return tensor.detach().to(at::kCPU, tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
}

}  // namespace

TrainedNetwork trained_network(const Model& model) {
  TrainedNetwork trained{.name = model.network.name(),
                         .graph = graph_of(model.network),
                         .channels = model.input.channels,
                         .height = model.input.height,
                         .width = model.input.width,
                         .time_steps = model.input.time_steps,
                         .labels_time_steps = model.input.labels_time_steps,
                         .padding = model.padding,
                         .resize = model.resize,
                         .resize_to = model.resize_to,
                         .decode = model.decode,
                         .mean = model.mean,
                         .deviation = model.deviation,
                         .classes = model.classes,
                         .weights = {}};
  for (const auto& [name, values] :
       model.state.empty() ? nn::read_weights(model.weights).tensors : model.state)
    trained.weights.push_back({name, values});
  return trained;
}

TrainedNetwork trained_network(const Result& result, const std::string& weights) {
  // A manifest only has the name of a module. The caller of predict gives the module.
  const nn::Network any("a C++ module", [](const nn::NetworkInput&) -> nn::Instance { return {}; });
  return trained_network(model_of_run(result.output, weights, any));
}

TrainedNetwork trained_network(const BuiltModel& built, const TrainedAs& as) {
  const BuiltModel::Parts& parts = built.parts();
  Model model{.network = parts.network,
              .input = parts.input,
              .classes = as.classes.empty() ? parts.classes : as.classes,
              .resize = as.resize,
              .resize_to = {},
              .decode = data::Decode::exact,
              .padding = as.padding,
              .mean = as.mean,
              .deviation = as.deviation,
              .weights = {},
              .state = {}};
  if (static_cast<int64_t>(model.classes.size()) > 0 &&
      static_cast<int64_t>(model.classes.size()) != model.input.classes) {
    throw Error(ErrorCode::invalid_option, "the network distinguishes " +
                                               counted(model.input.classes, "class") + ", and " +
                                               counted_given(std::ssize(model.classes), "name"));
  }
  while (static_cast<int64_t>(model.classes.size()) < model.input.classes)
    model.classes.push_back(std::to_string(model.classes.size()));
  for (const auto& [name, values] : built.state()) model.state.emplace_back(name, copied(values));
  return trained_network(model);
}

Model model_of(const TrainedNetwork& trained, const nn::Network& own) {
  if (trained.graph.empty() && own.empty()) {
    throw Error(ErrorCode::invalid_option,
                "the trained network is a C++ module, which only its own program can make",
                "give the module's network: train::model_of(trained, network)");
  }
  Model model;
  model.network = trained.graph.empty() ? own : nn::read_network(Json::parse(trained.graph), trained.name);
  model.input = {trained.channels, trained.height, trained.width,
                 static_cast<int64_t>(trained.classes.size())};
  model.input.time_steps = trained.time_steps;
  model.input.labels_time_steps = trained.labels_time_steps;
  model.padding = trained.padding;
  model.classes = trained.classes;
  model.resize = trained.resize;
  model.resize_to = trained.resize_to;
  model.decode = trained.decode;
  model.mean = trained.mean;
  model.deviation = trained.deviation;
  for (const NamedWeight& weight : trained.weights) model.state.emplace_back(weight.name, weight.values);
  return model;
}

}  // namespace lockstep::train
