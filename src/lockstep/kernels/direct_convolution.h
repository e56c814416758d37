// Convolutions and the layers around them with our kernels, in place of the engine's, where ours are faster
// by measurement.
#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/joined_images.h"

namespace torch::nn {
class Conv2dImpl;
}

namespace lockstep::kernels {

/// module(input). If a DirectConvolutions scope is enabled and our kernels support this convolution, the
/// result is written into the joined images, with a ReLU, and returned as that part of them.
at::Tensor joined_convolution(torch::nn::Conv2dImpl& module, const at::Tensor& input,
                              const JoinedImages& joined);

/// relu(module(input)). Without gradients, our kernels compute both in one pass.
at::Tensor convolution_relu(torch::nn::Conv2dImpl& module, const at::Tensor& input);

/// While it lives and is enabled, LibTorch's operators on this thread, and so all modules, use our kernels if
/// they support the arguments and are faster. at::conv2d needs one group, no dilation, and float32 images on
/// a CPU, or autocast to bfloat16; its output has the input's order of memory. The others take float32 and
/// bfloat16: at::max_pool2d and at::batch_norm on images stored channels last, at::relu, and at::linear for
/// input [b,features] with few samples or outputs, also as addmm or matmul by a transposed matrix, which
/// modules call. Everything else goes to the engine. at::Tensor::view of images stored channels last makes a
/// copy if there is no such view. Scopes nest; the inner one counts.
class DirectConvolutions {
 public:
  explicit DirectConvolutions(bool enabled);
  ~DirectConvolutions();
  DirectConvolutions(const DirectConvolutions&) = delete;
  DirectConvolutions& operator=(const DirectConvolutions&) = delete;

  /// Whether this thread has a scope and its innermost scope is enabled.
  static bool enabled();

 private:
  struct Included;
  bool outer_;
  std::unique_ptr<Included> included_;
};

/// While it lives, it notes the copies that view or flatten made on this thread of images stored channels
/// last. The engine would return views, because its images have another order of memory. Scopes nest; the
/// inner one counts.
class RowCopies {
 public:
  RowCopies();
  ~RowCopies();
  RowCopies(const RowCopies&) = delete;
  RowCopies& operator=(const RowCopies&) = delete;

  /// Whether a copy was written to. With a view, the write would have changed the images.
  bool changed() const;

 private:
  std::vector<at::Tensor> copies_;
  std::vector<at::Tensor>* outer_;
};

}  // namespace lockstep::kernels
