#include <string>

#include "lockstep/nn/zoo/zoo.h"

namespace lockstep::nn {
namespace {

/// A 3x3 convolution without bias, batch norm and ReLU. Returns the name of the last layer.
std::string convolve(Json& layers, const std::string& name, const std::string& input, int64_t filters) {
  layers.push_back({{"name", name + ".conv"},
                    {"type", "conv2d"},
                    {"inputs", Json::array({input})},
                    {"filters", filters},
                    {"kernel", 3},
                    {"padding", 1},
                    {"bias", false},
                    {"initializer", "he-fan-out"}});
  layers.push_back({{"name", name + ".bn"}, {"type", "batch_norm"}});
  layers.push_back({{"name", name + ".relu"}, {"type", "relu"}});
  return name + ".relu";
}

std::string halve(Json& layers, const std::string& name) {
  layers.push_back({{"name", name}, {"type", "max_pool"}, {"kernel", 2}, {"stride", 2}});
  return name;
}

/// Two convolutions, added to their input.
std::string residual(Json& layers, const std::string& name, const std::string& input, int64_t filters) {
  const std::string first = convolve(layers, name + ".0", input, filters);
  const std::string second = convolve(layers, name + ".1", first, filters);
  layers.push_back({{"name", name + ".add"}, {"type", "add"}, {"inputs", Json::array({input, second})}});
  return name + ".add";
}

Json resnet9_of(const char* name, int64_t filters) {
  Json layers = Json::array();
  std::string last = convolve(layers, "stem", "input", filters);
  convolve(layers, "layer1", last, 2 * filters);
  last = residual(layers, "residual1", halve(layers, "pool1"), 2 * filters);
  convolve(layers, "layer2", last, 4 * filters);
  convolve(layers, "layer3", halve(layers, "pool2"), 8 * filters);
  residual(layers, "residual3", halve(layers, "pool3"), 8 * filters);
  layers.push_back({{"name", "avgpool"}, {"type", "global_average_pool"}});
  layers.push_back({{"name", "flatten"}, {"type", "flatten"}});
  layers.push_back({{"name", "fc"}, {"type", "linear"}, {"features", "classes"}});
  return {{"name", name}, {"layers", layers}};
}

}  // namespace

Json resnet9() { return resnet9_of("resnet9", 32); }

Json resnet9_small() { return resnet9_of("resnet9_small", 16); }

}  // namespace lockstep::nn
