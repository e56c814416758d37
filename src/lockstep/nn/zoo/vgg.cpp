#include <array>
#include <string>
#include <utility>

#include "lockstep/nn/zoo/zoo.h"

namespace lockstep::nn {

Json vgg16() {
  Json layers = Json::array();
  int64_t count = 0;
  const auto add = [&](Json layer) {
    layer["name"] = "features." + std::to_string(count++);
    layers.push_back(std::move(layer));
  };
  const std::array<std::pair<int64_t, int64_t>, 5> stages{{{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}}};
  for (const auto& [convolutions, filters] : stages) {
    for (int64_t i = 0; i < convolutions; ++i) {
      add({{"type", "conv2d"},
           {"filters", filters},
           {"kernel", 3},
           {"padding", 1},
           {"initializer", "he-fan-out"}});
      add({{"type", "relu"}});
    }
    add({{"type", "max_pool"}, {"kernel", 2}, {"stride", 2}});
  }
  layers.push_back({{"name", "avgpool"}, {"type", "adaptive_average_pool"}, {"size", 7}});
  layers.push_back({{"name", "flatten"}, {"type", "flatten"}});
  const auto linear = [&](const char* name, const Json& features) {
    layers.push_back({{"name", name}, {"type", "linear"}, {"features", features}, {"initializer", "normal"}});
  };
  const auto relu_and_dropout = [&](const char* relu, const char* dropout) {
    layers.push_back({{"name", relu}, {"type", "relu"}});
    layers.push_back({{"name", dropout}, {"type", "dropout"}, {"probability", 0.5}});
  };
  linear("classifier.0", 4096);
  relu_and_dropout("classifier.1", "classifier.2");
  linear("classifier.3", 4096);
  relu_and_dropout("classifier.4", "classifier.5");
  linear("classifier.6", "classes");
  return {{"name", "vgg16"}, {"layers", layers}};
}

}  // namespace lockstep::nn
