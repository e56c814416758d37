#include "lockstep/nn/initializer.h"

#include <torch/nn/init.h>

namespace lockstep::nn {

void initialize(Initializer initializer, at::Tensor weight, at::Tensor bias) {
  switch (initializer) {
    case Initializer::standard:
      return;
    case Initializer::xavier:
      torch::nn::init::xavier_normal_(weight);
      break;
    case Initializer::he:
      torch::nn::init::kaiming_normal_(weight, 0.0, torch::kFanIn, torch::kReLU);
      break;
    case Initializer::he_fan_out:
      torch::nn::init::kaiming_normal_(weight, 0.0, torch::kFanOut, torch::kReLU);
      break;
    case Initializer::he_uniform:
      torch::nn::init::kaiming_uniform_(weight, 0.0, torch::kFanIn, torch::kReLU);
      break;
    case Initializer::normal:
      torch::nn::init::normal_(weight, 0.0, 0.01);
      break;
    case Initializer::zeros:
      torch::nn::init::zeros_(weight);
      break;
  }
  if (bias.defined()) torch::nn::init::zeros_(bias);
}

}  // namespace lockstep::nn
