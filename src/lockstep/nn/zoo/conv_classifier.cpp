#include "lockstep/nn/zoo/zoo.h"

#include <string>

namespace lockstep::nn {

// The kernels are wider than those of the fully convolutional network of Wang et al. 2017, and the norms do
// not mix sequences, so that small mini-batches do no harm.
Json conv_classifier() {
  Json layers = Json::array();
  int64_t index = 1;
  for (const int64_t kernel : {15, 9, 5}) {
    const std::string number = std::to_string(index++);
    layers.push_back({{"name", "conv" + number},
                      {"type", "conv1d"},
                      {"filters", 64},
                      {"kernel", kernel},
                      {"initializer", "he-uniform"}});
    layers.push_back({{"name", "norm" + number}, {"type", "layer_norm"}});
    layers.push_back({{"name", "relu" + number}, {"type", "relu"}});
  }
  layers.push_back({{"name", "pool"}, {"type", "global_average_pool"}});
  layers.push_back({{"name", "fc"}, {"type", "linear"}, {"features", "classes"}});
  return layers;
}

}  // namespace lockstep::nn
