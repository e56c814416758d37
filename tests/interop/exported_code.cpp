// The C++ code that `lockstep export` has written for two networks, as programs of others use it.
//
// usage: lockstep_exported_code every|steps WEIGHTS.safetensors INPUT.safetensors OUTPUT.safetensors
#include <string>

#include <torch/torch.h>

#include "lockstep/nn/state.h"
#include "lockstep/nn/weights_file.h"

namespace every {
#include "every.cpp"
}
namespace steps {
#include "steps.cpp"
}

namespace {

template <class Network>
at::Tensor logits_of(Network network, const std::string& weights, const at::Tensor& input) {
  lockstep::nn::load_state(*network, lockstep::nn::read_weights(weights), weights);
  network->eval();
  const torch::NoGradGuard no_gradients;
  return network->forward(input);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const std::string name = argv[1], weights = argv[2];
  const at::Tensor input = lockstep::nn::read_safetensors(argv[3]).tensors.at(0).second;
  const at::Tensor logits = name == "every" ? logits_of(every::Network(), weights, input)
                                            : logits_of(steps::Network(), weights, input);
  lockstep::nn::write_safetensors(argv[4], {{"y", logits.contiguous()}});
}
