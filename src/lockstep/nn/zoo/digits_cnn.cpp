#include "lockstep/nn/zoo/zoo.h"

namespace lockstep::nn {

Json digits_cnn() {
  const Json batch_norm{{"type", "batch_norm"}};
  const Json relu{{"type", "relu"}};
  const Json small{{"type", "conv2d"}, {"filters", 20}, {"kernel", 3}, {"padding", 1}};
  return Json::array({{{"type", "conv2d"}, {"filters", 20}, {"kernel", 5}},
                      batch_norm,
                      relu,
                      small,
                      batch_norm,
                      relu,
                      small,
                      batch_norm,
                      relu,
                      {{"type", "flatten"}},
                      {{"type", "linear"}, {"features", "classes"}}});
}

}  // namespace lockstep::nn
