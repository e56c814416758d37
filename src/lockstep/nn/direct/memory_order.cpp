#include "lockstep/nn/direct/memory_order.h"

#include <ATen/Functions.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/nn/direct/linear_kernels.h"
#include "lockstep/nn/internal/first_derivative.h"
#include "lockstep/nn/internal/typed.h"

namespace lockstep::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Each picture's matrix [rows, columns], turned, into `result`.
at::Tensor turned_into(const at::Tensor& result, const at::Tensor& pictures, int64_t rows, int64_t columns) {
  visit_type(pictures.scalar_type(), [&](auto type) {
    using T = decltype(type);
    direct::linear_kernels<T>().turn(data<T>(pictures), pictures.size(0), rows, columns, data<T>(result));
  });
  return result;
}

class ChannelsFirst : public torch::autograd::Function<ChannelsFirst> {
 public:
  static at::Tensor forward(AutogradContext*, const at::Tensor& pictures) {
    return turned_into(at::empty(pictures.sizes(), pictures.options()), pictures,
                       pictures.size(2) * pictures.size(3), pictures.size(1));
  }
  static variable_list backward(AutogradContext*, variable_list gradients) {
    check_first_derivative();
    const at::Tensor gradient = gradients[0].contiguous();
    const at::Tensor result =
        at::empty(gradient.sizes(), gradient.options().memory_format(at::MemoryFormat::ChannelsLast));
    return {turned_into(result, gradient, gradient.size(1), gradient.size(2) * gradient.size(3))};
  }
};

}  // namespace

at::Tensor channels_last(const at::Tensor& pictures) {
  if (!pictures.is_cpu() || pictures.dim() != 4 || pictures.scalar_type() != at::kFloat) return pictures;
  // One channel counts as stored either way; its strides have to say which.
  if (pictures.size(1) == 1) {
    const at::Tensor dense = pictures.contiguous();
    return dense.as_strided(dense.sizes(), {dense.stride(0), 1, dense.stride(2), 1});
  }
  return pictures.contiguous(at::MemoryFormat::ChannelsLast);
}

bool is_channels_last(const at::Tensor& pictures) {
  return pictures.is_cpu() && pictures.dim() == 4 &&
         (pictures.scalar_type() == at::kFloat || pictures.scalar_type() == at::kBFloat16) &&
         !pictures.is_contiguous() && pictures.is_contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor channels_first(const at::Tensor& pictures) { return ChannelsFirst::apply(pictures); }

}  // namespace lockstep::nn
