#include "lockstep/nn/layer_tensors.h"

#include "lockstep/base/error.h"
#include "lockstep/nn/internal/quotes.h"

namespace lockstep::nn {

const at::Tensor& LayerTensors::at(const std::string& layer, const std::string& tensor) const {
  const auto found = tensors_.find(layer + "." + tensor);
  if (found == tensors_.end())
    throw Error(ErrorCode::corrupt_data, "the weights have no tensor " + in_quotes(layer + "." + tensor));
  return found->second;
}

}  // namespace lockstep::nn
