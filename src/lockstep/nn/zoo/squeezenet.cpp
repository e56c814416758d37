#include "lockstep/nn/zoo/zoo.h"

#include <string>
#include <utility>

namespace lockstep::nn {
namespace {

std::string feature(int64_t index) { return "features." + std::to_string(index); }

void max_pool(Json& layers, int64_t index) {
  layers.push_back(
      {{"name", feature(index)}, {"type", "max_pool"}, {"kernel", 3}, {"stride", 2}, {"ceil_mode", true}});
}

void convolve(Json& layers, const std::string& name, const std::string& input, int64_t filters,
              int64_t kernel) {
  layers.push_back({{"name", name},
                    {"type", "conv2d"},
                    {"inputs", Json::array({input})},
                    {"filters", filters},
                    {"kernel", kernel},
                    {"padding", kernel / 2}});
  layers.push_back({{"name", name + "_activation"}, {"type", "relu"}});
}

/// A 1x1 convolution to few channels, then parallel 1x1 and 3x3 convolutions.
void fire(Json& layers, int64_t index, int64_t squeezed, int64_t expanded) {
  const std::string name = feature(index);
  const std::string input = layers.back()["name"];
  convolve(layers, name + ".squeeze", input, squeezed, 1);
  convolve(layers, name + ".expand1x1", name + ".squeeze_activation", expanded, 1);
  convolve(layers, name + ".expand3x3", name + ".squeeze_activation", expanded, 3);
  layers.push_back(
      {{"name", name + ".concatenate"},
       {"type", "concatenate"},
       {"inputs", Json::array({name + ".expand1x1_activation", name + ".expand3x3_activation"})}});
}

Json with_classifier(Json layers, const char* name) {
  layers.push_back({{"name", "classifier.0"}, {"type", "dropout"}, {"probability", 0.5}});
  layers.push_back({{"name", "classifier.1"},
                    {"type", "conv2d"},
                    {"filters", "classes"},
                    {"kernel", 1},
                    {"initializer", "normal"}});
  layers.push_back({{"name", "classifier.2"}, {"type", "relu"}});
  layers.push_back({{"name", "classifier.3"}, {"type", "global_average_pool"}});
  layers.push_back({{"name", "flatten"}, {"type", "flatten"}});
  return {{"name", name}, {"initializer", "he-uniform"}, {"layers", std::move(layers)}};
}

}  // namespace

Json squeezenet() {
  Json layers = Json::array();
  layers.push_back({{"name", feature(0)}, {"type", "conv2d"}, {"filters", 96}, {"kernel", 7}, {"stride", 2}});
  layers.push_back({{"name", feature(1)}, {"type", "relu"}});
  max_pool(layers, 2);
  fire(layers, 3, 16, 64);
  fire(layers, 4, 16, 64);
  fire(layers, 5, 32, 128);
  max_pool(layers, 6);
  fire(layers, 7, 32, 128);
  fire(layers, 8, 48, 192);
  fire(layers, 9, 48, 192);
  fire(layers, 10, 64, 256);
  max_pool(layers, 11);
  fire(layers, 12, 64, 256);
  return with_classifier(std::move(layers), "squeezenet");
}

Json squeezenet1_1() {
  Json layers = Json::array();
  layers.push_back({{"name", feature(0)}, {"type", "conv2d"}, {"filters", 64}, {"kernel", 3}, {"stride", 2}});
  layers.push_back({{"name", feature(1)}, {"type", "relu"}});
  max_pool(layers, 2);
  fire(layers, 3, 16, 64);
  fire(layers, 4, 16, 64);
  max_pool(layers, 5);
  fire(layers, 6, 32, 128);
  fire(layers, 7, 32, 128);
  max_pool(layers, 8);
  fire(layers, 9, 48, 192);
  fire(layers, 10, 48, 192);
  fire(layers, 11, 64, 256);
  fire(layers, 12, 64, 256);
  return with_classifier(std::move(layers), "squeezenet1_1");
}

}  // namespace lockstep::nn
