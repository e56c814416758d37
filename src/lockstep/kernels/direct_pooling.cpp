#include "lockstep/kernels/direct_pooling.h"

#include <ATen/Functions.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/kernels/pool_kernels.h"
#include "lockstep/kernels/first_derivative.h"
#include "lockstep/kernels/internal/typed.h"

namespace lockstep::kernels {
namespace {

using kernels::PoolShape;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

PoolShape shape_of(at::IntArrayRef sizes, const Window& rows, const Window& columns, bool relu) {
  return {.batch = sizes[0],
          .channels = sizes[1],
          .height = sizes[2],
          .width = sizes[3],
          .output_height = window_count(sizes[2], rows),
          .output_width = window_count(sizes[3], columns),
          .kernel_height = rows.kernel,
          .kernel_width = columns.kernel,
          .stride_height = rows.stride,
          .stride_width = columns.stride,
          .padding_height = rows.padding,
          .padding_width = columns.padding,
          .relu = relu};
}

class MaxPool : public torch::autograd::Function<MaxPool> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const Window& rows,
                            const Window& columns, bool relu) {
    const PoolShape shape = shape_of(input.sizes(), rows, columns, relu);
    const auto channels_last = input.options().memory_format(at::MemoryFormat::ChannelsLast);
    const at::Tensor output =
        at::empty({shape.batch, shape.channels, shape.output_height, shape.output_width}, channels_last);
    const at::Tensor largest = at::empty({output.numel()}, at::kByte);
    visit_type(input.scalar_type(), [&](auto type) {
      using T = decltype(type);
      kernels::pool_kernels<T>().max_pool(shape, data<T>(input), data<T>(output), data<uint8_t>(largest));
    });
    context->save_for_backward({largest});
    context->saved_data["sizes"] = input.sizes().vec();
    context->saved_data["rows"] =
        std::vector<int64_t>{rows.kernel, rows.stride, rows.padding, rows.ceil_mode};
    context->saved_data["columns"] =
        std::vector<int64_t>{columns.kernel, columns.stride, columns.padding, columns.ceil_mode};
    return output;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    check_first_derivative();
    const auto window = [&](const char* name) {
      const auto values = context->saved_data[name].toIntVector();
      return Window{
          .kernel = values[0], .stride = values[1], .padding = values[2], .ceil_mode = values[3] != 0};
    };
    const auto sizes = context->saved_data["sizes"].toIntVector();
    const at::Tensor gradient = gradients[0].contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor result =
        at::empty(sizes, gradient.options().memory_format(at::MemoryFormat::ChannelsLast));
    visit_type(gradient.scalar_type(), [&](auto type) {
      using T = decltype(type);
      kernels::pool_kernels<T>().max_pool_gradient(
          shape_of(sizes, window("rows"), window("columns"), false), data<T>(gradient),
          data<uint8_t>(context->get_saved_variables()[0]), data<T>(result));
    });
    return {result, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

bool fits(const Window& window, int64_t size) {
  return window.dilation == 1 && window.kernel >= 1 && window.stride >= 1 && window.padding >= 0 &&
         window.padding <= window.kernel / 2 && window_count(size, window) >= 1;
}

}  // namespace

std::optional<at::Tensor> direct_max_pool(const at::Tensor& input, const Window& rows, const Window& columns,
                                          bool relu) {
  const bool type = input.scalar_type() == at::kFloat || input.scalar_type() == at::kBFloat16;
  if (!type || !input.is_cpu() || input.dim() != 4 || input.numel() == 0 ||
      !input.is_contiguous(at::MemoryFormat::ChannelsLast))
    return std::nullopt;
  if (!fits(rows, input.size(2)) || !fits(columns, input.size(3)) || rows.kernel * columns.kernel > 255)
    return std::nullopt;
  return MaxPool::apply(input, rows, columns, relu);
}

}  // namespace lockstep::kernels
