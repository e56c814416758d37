// The tensors of a network by layer.
#pragma once

#include <string>
#include <unordered_map>

#include "lockstep/nn/safetensors.h"

namespace lockstep::nn {

class LayerTensors {
 public:
  explicit LayerTensors(const NamedTensors& state) : tensors_(state.begin(), state.end()) {}

  bool has(const std::string& layer, const std::string& tensor) const {
    return tensors_.contains(layer + "." + tensor);
  }
  /// Throws corrupt_data if it is missing.
  const at::Tensor& at(const std::string& layer, const std::string& tensor) const;
  void set(const std::string& layer, const std::string& tensor, at::Tensor value) {
    tensors_[layer + "." + tensor] = std::move(value);
  }

 private:
  std::unordered_map<std::string, at::Tensor> tensors_;
};

}  // namespace lockstep::nn
