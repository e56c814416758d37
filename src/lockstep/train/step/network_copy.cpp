#include "lockstep/train/step/network_copy.h"

#include <utility>

#include <torch/csrc/autograd/grad_mode.h>

#include "lockstep/base/error.h"
#include "lockstep/device/random_scope.h"

namespace lockstep::train {

nn::Instance seeded_instance(const nn::Network& network, const nn::NetworkInput& input, int64_t seed) {
  const device::RandomScope random(at::kCPU, static_cast<uint64_t>(seed));
  return network.make(input);
}

NetworkCopy::NetworkCopy(nn::Instance network, const SharedWeights& aliased,
                         const std::vector<BatchNormInfo>& info)
    : instance(std::move(network)),
      weights(&aliased),
      norms(instance, info),
      parameters(aliased.learned(instance)) {}

at::Tensor NetworkCopy::first_layers(const at::Tensor& input, size_t frozen) const {
  const torch::NoGradGuard no_grad;  // some kernels are others where gradients are wanted
  return instance.forward_part(input, 0, frozen);
}

at::Tensor NetworkCopy::logits(const at::Tensor& input, size_t frozen) const {
  if (frozen == 0 || !at::GradMode::is_enabled()) return instance.forward(input);
  return instance.forward_part(first_layers(input, frozen), frozen, instance.layers.size());
}

std::vector<at::Tensor> NetworkCopy::gradients() const {
  std::vector<at::Tensor> gradients;
  gradients.reserve(parameters.size());
  for (const at::Tensor& parameter : parameters) gradients.push_back(parameter.grad());
  return gradients;
}

void NetworkCopy::check_aliases() const {
  const auto expected = weights->views(weights->flat());
  const auto now = weights->learned(instance);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (now[i].const_data_ptr() != expected[i].const_data_ptr()) {
      throw Error(ErrorCode::invalid_option,
                  "the network replaced its parameter \"" + weights->slots()[i].name + "\" during training",
                  "change parameters in place only");
    }
  }
}

}  // namespace lockstep::train
