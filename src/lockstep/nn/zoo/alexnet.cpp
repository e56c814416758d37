#include <string>

#include "lockstep/nn/zoo/zoo.h"

namespace lockstep::nn {
namespace {

/// Appends a layer named with the group's next number, as torch.nn.Sequential does.
class Group {
 public:
  Group(Json& layers, std::string name) : layers_(layers), name_(std::move(name)) {}

  void add(Json layer) {
    layer["name"] = name_ + "." + std::to_string(count_++);
    layers_.push_back(std::move(layer));
  }

 private:
  Json& layers_;
  std::string name_;
  int64_t count_ = 0;
};

Json convolution(int64_t filters, int64_t kernel, int64_t stride, int64_t padding) {
  return {
      {"type", "conv2d"}, {"filters", filters}, {"kernel", kernel}, {"stride", stride}, {"padding", padding}};
}

Json relu() { return {{"type", "relu"}}; }
Json pool() { return {{"type", "max_pool"}, {"kernel", 3}, {"stride", 2}}; }
Json dropout() { return {{"type", "dropout"}, {"probability", 0.5}}; }

}  // namespace

Json alexnet() {
  Json layers = Json::array();
  Group features(layers, "features");
  for (const Json& layer : {convolution(64, 11, 4, 2), relu(), pool(), convolution(192, 5, 1, 2), relu(),
                            pool(), convolution(384, 3, 1, 1), relu(), convolution(256, 3, 1, 1), relu(),
                            convolution(256, 3, 1, 1), relu(), pool()}) {
    features.add(layer);
  }
  layers.push_back({{"name", "avgpool"}, {"type", "adaptive_average_pool"}, {"size", 6}});
  layers.push_back({{"name", "flatten"}, {"type", "flatten"}});
  Group classifier(layers, "classifier");
  const Json linear{{"type", "linear"}, {"features", 4096}};
  for (const Json& layer : {dropout(), linear, relu(), dropout(), linear, relu(),
                            Json{{"type", "linear"}, {"features", "classes"}}})
    classifier.add(layer);
  return {{"name", "alexnet"}, {"layers", layers}};
}

Json alexnet_2012() {
  const auto named = [](const char* name, Json layer) {
    layer["name"] = name;
    return layer;
  };
  const auto grouped = [](Json layer) {
    layer["groups"] = 2;
    return layer;
  };
  const Json norm{{"type", "local_response_norm"}, {"size", 5}, {"alpha", 1e-4}, {"beta", 0.75}, {"k", 1}};
  const Json linear{{"type", "linear"}, {"features", 4096}};
  const Json layers = Json::array({named("conv1", convolution(96, 11, 4, 0)),
                                   named("relu1", relu()),
                                   named("norm1", norm),
                                   named("pool1", pool()),
                                   named("conv2", grouped(convolution(256, 5, 1, 2))),
                                   named("relu2", relu()),
                                   named("norm2", norm),
                                   named("pool2", pool()),
                                   named("conv3", convolution(384, 3, 1, 1)),
                                   named("relu3", relu()),
                                   named("conv4", grouped(convolution(384, 3, 1, 1))),
                                   named("relu4", relu()),
                                   named("conv5", grouped(convolution(256, 3, 1, 1))),
                                   named("relu5", relu()),
                                   named("pool5", pool()),
                                   named("flatten", {{"type", "flatten"}}),
                                   named("fc6", linear),
                                   named("relu6", relu()),
                                   named("drop6", dropout()),
                                   named("fc7", linear),
                                   named("relu7", relu()),
                                   named("drop7", dropout()),
                                   named("fc8", {{"type", "linear"}, {"features", "classes"}})});
  return {{"name", "alexnet_2012"}, {"initializer", "normal"}, {"layers", layers}};
}

}  // namespace lockstep::nn
