#include "lockstep/train/trained_network.h"

#include "lockstep/base/error.h"
#include "lockstep/nn/layers.h"

namespace lockstep::train {

TrainedNetwork trained_network(const Result& result, const std::string& weights) {
  // A manifest has no more than the name of a module; whoever predicts with it gives the module.
  const nn::Network any("a C++ module", [](const nn::NetworkInput&) -> nn::Instance { return {}; });
  const Model model = model_of_run(result.output, weights, any);
  TrainedNetwork trained{.name = model.network.name(),
                         .graph = model.network.spec().is_null() ? "" : model.network.spec().dump(),
                         .channels = model.input.channels,
                         .height = model.input.height,
                         .width = model.input.width,
                         .resize = model.resize,
                         .resize_to = model.resize_to,
                         .decode = model.decode,
                         .mean = model.mean,
                         .deviation = model.deviation,
                         .classes = model.classes,
                         .weights = {}};
  for (auto& [name, values] : nn::read_safetensors(model.weights).tensors) trained.weights.push_back({name, values});
  return trained;
}

Model model_of(const TrainedNetwork& trained, const nn::Network& own) {
  if (trained.graph.empty() && own.empty()) {
    throw Error(ErrorCode::invalid_option, "the trained network is a C++ module, which only its own program can make", "name it: train::model_of(trained, network)");
  }
  Model model;
  model.network = trained.graph.empty() ? own : nn::read_network(Json::parse(trained.graph), trained.name);
  model.input = {trained.channels, trained.height, trained.width, static_cast<int64_t>(trained.classes.size())};
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
