#include "lockstep/kernels/memory_order.h"

#include <ATen/Functions.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/kernels/linear_kernels.h"
#include "lockstep/kernels/first_derivative.h"
#include "lockstep/kernels/internal/typed.h"

namespace lockstep::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Each image's matrix [rows, columns], transposed, into `result`.
at::Tensor transposed_into(const at::Tensor& result, const at::Tensor& images, int64_t rows,
                           int64_t columns) {
  visit_type(images.scalar_type(), [&](auto type) {
    using T = decltype(type);
    kernels::linear_kernels<T>().transpose(data<T>(images), images.size(0), rows, columns, data<T>(result));
  });
  return result;
}

class ChannelsFirst : public torch::autograd::Function<ChannelsFirst> {
 public:
  static at::Tensor forward(AutogradContext*, const at::Tensor& images) {
    return transposed_into(at::empty(images.sizes(), images.options()), images,
                           images.size(2) * images.size(3), images.size(1));
  }
  static variable_list backward(AutogradContext*, variable_list gradients) {
    check_first_derivative();
    const at::Tensor gradient = gradients[0].contiguous();
    const at::Tensor result =
        at::empty(gradient.sizes(), gradient.options().memory_format(at::MemoryFormat::ChannelsLast));
    return {transposed_into(result, gradient, gradient.size(1), gradient.size(2) * gradient.size(3))};
  }
};

}  // namespace

at::Tensor channels_last(const at::Tensor& images) {
  if (!images.is_cpu() || images.dim() != 4 || images.scalar_type() != at::kFloat) return images;
  // One channel counts as stored either way; its strides have to say which.
  if (images.size(1) == 1) {
    const at::Tensor dense = images.contiguous();
    return dense.as_strided(dense.sizes(), {dense.stride(0), 1, dense.stride(2), 1});
  }
  return images.contiguous(at::MemoryFormat::ChannelsLast);
}

bool is_channels_last(const at::Tensor& images) {
  return images.is_cpu() && images.dim() == 4 &&
         (images.scalar_type() == at::kFloat || images.scalar_type() == at::kBFloat16) &&
         !images.is_contiguous() && images.is_contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor channels_first(const at::Tensor& images) { return ChannelsFirst::apply(images); }

}  // namespace lockstep::kernels
