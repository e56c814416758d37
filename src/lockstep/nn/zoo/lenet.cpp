#include "lockstep/nn/zoo/zoo.h"

namespace lockstep::nn {

Json lenet() {
  const Json max_pool{{"type", "max_pool"}, {"kernel", 2}, {"stride", 2}};
  return {{"name", "lenet"},
          {"initializer", "xavier"},
          {"layers", Json::array({{{"type", "conv2d"}, {"filters", 20}, {"kernel", 5}},
                                  max_pool,
                                  {{"type", "conv2d"}, {"filters", 50}, {"kernel", 5}},
                                  max_pool,
                                  {{"type", "flatten"}},
                                  {{"type", "linear"}, {"features", 500}},
                                  {{"type", "relu"}},
                                  {{"type", "linear"}, {"features", "classes"}}})}};
}

}  // namespace lockstep::nn
