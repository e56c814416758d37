#include "lockstep/nn/zoo/zoo.h"

namespace lockstep::nn {

Json lstm_classifier() {
  return Json::array({{{"name", "lstm"}, {"type", "lstm"}, {"hidden", 100}, {"output", "last"}},
                      {{"name", "fc"}, {"type", "linear"}, {"features", "classes"}}});
}

}  // namespace lockstep::nn
