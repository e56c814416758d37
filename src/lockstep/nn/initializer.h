// Initial weights. They are drawn from LibTorch's generator of the calling thread, so the caller can seed it.
#pragma once

#include <array>

#include <ATen/core/Tensor.h>

namespace lockstep::nn {

/// For a weight [out, in, kernel...], fan_in = in * kernel and fan_out = out * kernel. Biases are zero,
/// except for `standard`.
enum class Initializer {
  standard,    ///< as in PyTorch's convolution and linear layers: uniform up to 1/sqrt(fan_in), also biases
  xavier,      ///< normal, variance 2 / (fan_in + fan_out). Glorot and Bengio 2010, normal as in DL4J
  he,          ///< normal, variance 2 / fan_in. He et al. 2015
  he_fan_out,  ///< normal, variance 2 / fan_out: as in torchvision's residual networks
  he_uniform,  ///< uniform, variance 2 / fan_in: as in torchvision's SqueezeNet
  normal,      ///< normal, standard deviation 0.01
  zeros,
};
constexpr std::array<const char*, 7> enum_names(Initializer) {
  return {"default", "xavier", "he", "he-fan-out", "he-uniform", "normal", "zeros"};
}

/// Fills a layer's tensors, in place. `bias` may be undefined. `standard` leaves them unchanged, because
/// LibTorch's modules start with it.
void initialize(Initializer initializer, at::Tensor weight, at::Tensor bias);

}  // namespace lockstep::nn
