// LibTorch's operators with our kernels, in place of the engine's, where ours are faster by measurement.
#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep::kernels {

/// While it lives and is enabled, LibTorch's operators on this thread, and so all modules, use our kernels if
/// they support the arguments and are faster. at::conv2d needs one group or one for each channel, no
/// dilation, and float32 images on a CPU, or autocast to bfloat16; its output has the input's order of
/// memory. The others take float32 and bfloat16: at::max_pool2d and at::batch_norm on images stored channels
/// last, at::relu, and at::linear for input [b,features] with few samples or outputs, also as addmm or matmul
/// by a transposed matrix, which modules call. Everything else goes to the engine; averages of images
/// (at::avg_pool2d, at::adaptive_avg_pool2d, at::mean over is_over_places) for each shard of ShardsTogether.
/// at::Tensor::view of images stored channels last makes a copy if there is no such view. Scopes nest; the
/// inner one counts.
class DirectKernels {
 public:
  explicit DirectKernels(bool enabled);
  ~DirectKernels();
  DirectKernels(const DirectKernels&) = delete;
  DirectKernels& operator=(const DirectKernels&) = delete;

  /// Whether this thread has a scope and its innermost scope is enabled.
  static bool enabled();

 private:
  struct Included;
  bool outer_;
  std::unique_ptr<Included> included_;
};

/// Whether these are dimensions of the places in images [b,C,H,W], and of nothing else.
bool is_over_places(const at::Tensor& images, at::IntArrayRef dimensions);

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
