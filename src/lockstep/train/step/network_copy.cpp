#include "lockstep/train/step/network_copy.h"

#include <algorithm>
#include <utility>

#include <ATen/Functions.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "lockstep/base/error.h"
#include "lockstep/device/random_scope.h"
#include "lockstep/kernels/shards_together.h"

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

at::Tensor NetworkCopy::output_of_frozen(const at::Tensor& input, const FrozenLayers& frozen) const {
  const torch::NoGradGuard no_grad;  // some kernels are others where gradients are wanted
  if (frozen.group == 0) return instance.forward_part(input, 0, frozen.count);
  const kernels::ShardsTogether whole(1);  // groups do not begin where shards do
  const int64_t samples = input.size(0);
  std::vector<at::Tensor> outputs;
  for (int64_t begin = 0; begin < samples; begin += frozen.group) {
    const int64_t own = std::min(frozen.group, samples - begin);
    // A copy, because a library may choose its algorithm by the alignment.
    const at::Tensor group = at::cat(
        {input.narrow(0, begin, own), input.narrow(0, begin, 1).expand({frozen.group - own, -1, -1, -1})});
    outputs.push_back(instance.forward_part(group, 0, frozen.count).narrow(0, 0, own));
  }
  return at::cat(outputs);
}

at::Tensor NetworkCopy::logits(const at::Tensor& input, const FrozenLayers& frozen) const {
  if (frozen.count == 0) return instance.forward(input);
  return instance.forward_part(output_of_frozen(input, frozen), frozen.count, instance.layers.size());
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
