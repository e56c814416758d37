#include "lockstep/nn/zoo/zoo.h"

namespace lockstep::nn {

Json mlp() {
  const Json relu{{"type", "relu"}};
  return Json::array({{{"type", "flatten"}},
                      {{"type", "linear"}, {"features", 256}},
                      relu,
                      {{"type", "linear"}, {"features", 128}},
                      relu,
                      {{"type", "linear"}, {"features", "classes"}}});
}

}  // namespace lockstep::nn
