// Convolutions with our kernels, where these are faster than the engine's by measurement.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>
#include <c10/core/SymIntArrayRef.h>

#include "lockstep/kernels/joined_images.h"

namespace torch::nn {
class Conv2dImpl;
}

namespace lockstep::kernels {

/// The arguments of at::conv2d.
struct ConvolutionCall {
  const at::Tensor& input;
  const at::Tensor& weight;
  const std::optional<at::Tensor>& bias;
  c10::SymIntArrayRef stride;
  c10::SymIntArrayRef padding;
  c10::SymIntArrayRef dilation;
  const c10::SymInt& groups;
};

/// What at::conv2d returns, from our kernels if a DirectKernels scope is enabled and they support the call,
/// and otherwise from the engine's. The output has the input's order of memory.
at::Tensor direct_convolution(const ConvolutionCall& call);

/// module(input). If a DirectKernels scope is enabled and our kernels support this convolution, the
/// result is written into the joined images, with a ReLU, and returned as that part of them.
at::Tensor joined_convolution(torch::nn::Conv2dImpl& module, const at::Tensor& input,
                              const JoinedImages& joined);

/// relu(module(input)). Without gradients, our kernels compute both in one pass.
at::Tensor convolution_relu(torch::nn::Conv2dImpl& module, const at::Tensor& input);

}  // namespace lockstep::kernels
