// Convolutions and the layers around them by own kernels, in place of the engine's, where a measurement found
// them faster.
#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/joined_images.h"

namespace torch::nn {
class Conv2dImpl;
}

namespace lockstep::kernels {

/// module(input). Where a scope below is in force and own kernels do this convolution, the result is written
/// into the joined images, with a ReLU, and given as that part of them.
at::Tensor joined_convolution(torch::nn::Conv2dImpl& module, const at::Tensor& input,
                              const JoinedImages& joined);

/// While it lives, at::conv2d on this thread, and so every Conv2d module, runs on the kernels of this folder
/// where they fit and are worthwhile: one group, no dilation, float32 images on a CPU, or any of these
/// under autocast to bfloat16. The output is stored as the input is. So do at::max_pool2d and at::batch_norm
/// on images stored channels last, at::relu, and at::linear, or what modules make of it (addmm, matmul by a
/// transposed matrix), of [b,features] with few samples or outputs, for float32 and bfloat16. Everything else
/// goes to the engine as before; but at::Tensor::view of images stored channels last copies where it would
/// have thrown. Scopes nest; the inner one counts.
class DirectConvolutions {
 public:
  explicit DirectConvolutions(bool enabled);
  ~DirectConvolutions();
  DirectConvolutions(const DirectConvolutions&) = delete;
  DirectConvolutions& operator=(const DirectConvolutions&) = delete;

  /// Whether the innermost scope of this thread is there and enabled.
  static bool enabled();

 private:
  struct Included;
  bool outer_;
  std::unique_ptr<Included> included_;
};

/// While it lives, it notes on this thread where a view or flatten of images stored channels last gave a
/// copy, for which the engine, given its own order of memory, gives a view. Scopes nest; the inner one
/// counts.
class RowCopies {
 public:
  RowCopies();
  ~RowCopies();
  RowCopies(const RowCopies&) = delete;
  RowCopies& operator=(const RowCopies&) = delete;

  /// Whether one of them was written to, which the images would have seen.
  bool changed() const;

 private:
  std::vector<at::Tensor> copies_;
  std::vector<at::Tensor>* outer_;
};

}  // namespace lockstep::kernels
