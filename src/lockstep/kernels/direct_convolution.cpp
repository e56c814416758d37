#include "lockstep/kernels/direct_convolution.h"

#include <array>

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/conv.h>

#include "lockstep/device/dispatch_scope.h"
#include "lockstep/kernels/convolution_kernels.h"
#include "lockstep/kernels/direct_kernels.h"
#include "lockstep/kernels/engine_convolution.h"
#include "lockstep/kernels/memory_order.h"
#include "lockstep/kernels/first_derivative.h"
#include "lockstep/kernels/internal/typed.h"
#include "lockstep/kernels/shards_together.h"

namespace lockstep::kernels {
namespace {

using kernels::BFloat16;
using kernels::ConvolutionShape;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Padding and stride: of height, then of width.
using Steps = std::array<int64_t, 4>;

ConvolutionShape shape_of(const at::Tensor& input, const at::Tensor& weight, const Steps& steps) {
  return {.batch = input.size(0),
          .channels = input.size(1),
          .height = input.size(2),
          .width = input.size(3),
          .filters = weight.size(0),
          .kernel_height = weight.size(2),
          .kernel_width = weight.size(3),
          .padding_height = steps[0],
          .padding_width = steps[1],
          .weight_channels_last = !weight.is_contiguous(),
          .stride_height = steps[2],
          .stride_width = steps[3],
          .depthwise = weight.size(1) != input.size(1)};
}

/// The destination of a convolution's output [b,filters,H',W']: joined images, with a ReLU, or null for a new
/// tensor.
using Joined = const JoinedImages*;

at::Tensor take_output(const ConvolutionShape& shape, const at::TensorOptions& options, Joined joined) {
  const auto take = [&](int64_t channels) {
    return at::empty({shape.batch, channels, shape.output_height(), shape.output_width()},
                     options.memory_format(at::MemoryFormat::ChannelsLast));
  };
  if (joined == nullptr) return take(shape.filters);
  if (!joined->whole.defined()) joined->whole = take(joined->channels);
  const at::AutoDispatchBelowADInplaceOrView
      unwatched;  // not a view for autograd: nothing reads the whole before all parts are written
  return joined->whole.narrow(1, joined->begin, shape.filters);
}

/// Weight and bias are float32, also for bfloat16 images. They are rounded here; their gradients are not.
class Convolution : public torch::autograd::Function<Convolution> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const Steps& steps, Joined joined) {
    const ConvolutionShape shape = shape_of(input, weight, steps);
    const at::Tensor own_weight = weight.to(input.scalar_type());
    const at::Tensor own_bias = bias ? bias->to(input.scalar_type()).contiguous() : at::Tensor();
    const at::Tensor output = take_output(shape, input.options(), joined);
    const int64_t step = joined == nullptr ? shape.filters : joined->channels;
    visit_type(input.scalar_type(), [&](auto type) {
      using T = decltype(type);
      kernels::convolution_kernels<T>().forward(shape, data<T>(input), data<T>(own_weight), data<T>(own_bias),
                                                {data<T>(output), step, joined != nullptr});
    });
    context->save_for_backward({input, own_weight});
    context->saved_data["steps"] = std::vector<int64_t>(steps.begin(), steps.end());
    context->saved_data["bias"] = bias.has_value();
    return output;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    check_first_derivative();
    const auto saved = context->get_saved_variables();
    const at::Tensor& input = saved[0];
    const at::Tensor& weight = saved[1];
    const auto steps = context->saved_data["steps"].toIntVector();
    const ConvolutionShape shape = shape_of(input, weight, {steps[0], steps[1], steps[2], steps[3]});
    const at::Tensor gradient =
        gradients[0].to(input.scalar_type()).contiguous(at::MemoryFormat::ChannelsLast);
    const bool bias = context->saved_data["bias"].toBool();
    at::Tensor input_gradient;
    ParameterGradients sum;
    visit_type(input.scalar_type(), [&](auto type) {
      using T = decltype(type);
      if (context->needs_input_grad(1) || (bias && context->needs_input_grad(2)))
        sum = parameter_gradients<T>(shape, gradient, input, weight, bias);
      if (context->needs_input_grad(0)) {
        input_gradient = at::empty_like(input, input.options(), at::MemoryFormat::ChannelsLast);
        kernels::convolution_kernels<T>().input_gradient(shape, data<T>(gradient), data<T>(weight),
                                                         data<T>(input_gradient));
      }
    });
    return {input_gradient, sum.weight, sum.bias, at::Tensor(), at::Tensor()};
  }

 private:
  template <class T>
  static ParameterGradients parameter_gradients(const ConvolutionShape& all, const at::Tensor& gradient,
                                                const at::Tensor& input, const at::Tensor& weight,
                                                bool bias) {
    ConvolutionShape shape = all;
    shape.shards = ShardsTogether::count();
    const auto options = weight.options().dtype(at::kFloat);
    const ParameterGradients sum{at::empty_like(weight, options),
                                 bias ? at::empty({shape.filters}, options) : at::Tensor()};
    kernels::convolution_kernels<T>().weight_gradient(shape, data<T>(gradient), data<T>(input),
                                                      data<float>(sum.weight), data<float>(sum.bias));
    return sum;
  }
};

bool are_all(c10::SymIntArrayRef values, int64_t wanted) {
  return std::all_of(values.begin(), values.end(), [&](const c10::SymInt& value) { return value == wanted; });
}

bool has_fitting_groups(const ConvolutionCall& call) {
  const int64_t channels = call.input.size(1);
  if (call.groups == 1) return call.weight.size(1) == channels;
  return call.groups == channels && call.weight.size(1) == 1 && call.weight.size(0) == channels;
}

bool has_fitting_layout(const ConvolutionCall& call) {
  const auto is_dense = [](const at::Tensor& tensor) {
    return tensor.is_contiguous() || tensor.is_contiguous(at::MemoryFormat::ChannelsLast);
  };
  return call.input.is_cpu() && call.input.dim() == 4 && call.weight.dim() == 4 && call.input.numel() > 0 &&
         call.weight.scalar_type() == at::kFloat && is_dense(call.weight) && is_dense(call.input) &&
         has_fitting_groups(call) && are_all(call.dilation, 1) &&
         (!call.bias || !call.bias->defined() || call.bias->sizes() == call.weight.sizes().slice(0, 1));
}

// Whether a row or column of the kernel is on padding for every output.
bool has_idle_line(int64_t size, int64_t kernel, int64_t padding, int64_t stride, int64_t outputs) {
  for (int64_t line = 0; line < kernel; ++line) {
    bool is_idle = true;
    for (int64_t output = 0; output < outputs && is_idle; ++output) {
      const int64_t place = output * stride - padding + line;
      is_idle = place < 0 || place >= size;
    }
    if (is_idle) return true;
  }
  return false;
}

// In bfloat16, oneDNN 3.13 (LibTorch 2.15) does not write the gradient of such lines, which must be 0.
bool has_idle_lines(const ConvolutionShape& shape, const Steps& steps) {
  return has_idle_line(shape.height, shape.kernel_height, steps[0], steps[2], shape.output_height()) ||
         has_idle_line(shape.width, shape.kernel_width, steps[1], steps[3], shape.output_width());
}

/// Padding and stride if our kernels do this convolution in `type`.
std::optional<Steps> steps_if_direct(const ConvolutionCall& call, at::ScalarType type) {
  if ((!DirectKernels::enabled() && type != at::kBFloat16) || (type != at::kFloat && type != at::kBFloat16) ||
      !has_fitting_layout(call))
    return std::nullopt;
  const auto value = [](const c10::SymInt& number) { return number.guard_int(__FILE__, __LINE__); };
  const Steps steps{value(call.padding.front()), value(call.padding.back()), value(call.stride.front()),
                    value(call.stride.back())};
  if (steps[0] < 0 || steps[1] < 0 || steps[0] >= call.weight.size(2) || steps[1] >= call.weight.size(3) ||
      steps[2] < 1 || steps[3] < 1)
    return std::nullopt;
  ConvolutionShape shape = shape_of(call.input, call.weight, steps);
  shape.batch = ShardsTogether::samples_of_each(shape.batch);
  if (shape.output_height() < 1 || shape.output_width() < 1) return std::nullopt;
  if (type == at::kBFloat16 && !shape.depthwise && has_idle_lines(shape, steps)) return steps;
  if (!DirectKernels::enabled()) return std::nullopt;
  const bool worthwhile =
      type == at::kFloat ? kernels::is_worthwhile<float>(shape) : kernels::is_worthwhile<BFloat16>(shape);
  return worthwhile ? std::optional(steps) : std::nullopt;
}

/// The type in which the engine would compute: autocast comes after this key.
at::ScalarType type_of(const ConvolutionCall& call) {
  const bool autocast = at::autocast::is_autocast_enabled(at::kCPU) &&
                        (call.input.scalar_type() == at::kFloat || call.input.scalar_type() == at::kBFloat16);
  if (autocast) return at::autocast::get_autocast_dtype(at::kCPU);
  return call.input.scalar_type() == call.weight.scalar_type() ? call.input.scalar_type()
                                                               : at::ScalarType::Undefined;
}

at::Tensor convolve(const ConvolutionCall& call, Joined joined) {
  const auto& [input, weight, bias, stride, padding, dilation, groups] = call;
  const at::ScalarType type = type_of(call);
  const auto steps = steps_if_direct(call, type);
  const c10::impl::ExcludeDispatchKeyGuard guard(device::kScopeKey);
  const auto own_bias =
      bias && bias->defined() ? bias : std::nullopt;  // a module without a bias passes an undefined tensor
  if (!steps) {
    const bool known = input.is_cpu() && type != at::ScalarType::Undefined;
    if (!known) ShardsTogether::mix();
    if (ShardsTogether::count() > 1)
      return engine_convolution(input, weight, own_bias, {stride, padding, dilation, groups}, type);
    return at::conv2d_symint(input, weight, bias, stride, padding, dilation, groups);
  }
  const at::Tensor ordered = input.to(type).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor output = Convolution::apply(ordered, weight, own_bias, *steps, joined);
  if (joined != nullptr) return output;
  // The output of the engine's convolutions has the input's order of memory, and a module may rely on this.
  return input.is_contiguous(at::MemoryFormat::ChannelsLast) || !is_channels_last(output)
             ? output
             : channels_first(output);
}

}  // namespace

at::Tensor direct_convolution(const ConvolutionCall& call) { return convolve(call, nullptr); }

at::Tensor joined_convolution(torch::nn::Conv2dImpl& module, const at::Tensor& input,
                              const JoinedImages& joined) {
  auto& options = module.options;
  const auto* padding = std::get_if<torch::ExpandingArray<2>>(&options.padding());
  if (!DirectKernels::enabled() || padding == nullptr) return module.forward(input);
  const auto numbers = [](const torch::ExpandingArray<2>& pair) {
    return c10::fromIntArrayRefSlow(at::IntArrayRef(*pair));
  };
  const c10::SymInt groups(options.groups());
  const std::optional<at::Tensor> bias(module.bias);
  return convolve({input, module.weight, bias, numbers(options.stride()), numbers(*padding),
                   numbers(options.dilation()), groups},
                  &joined);
}

at::Tensor convolution_relu(torch::nn::Conv2dImpl& module, const at::Tensor& input) {
  if (at::GradMode::is_enabled()) return module.forward(input).relu_();
  at::Tensor whole;
  at::Tensor output = joined_convolution(module, input, {whole, 0, module.options.out_channels()});
  return whole.defined() ? output : output.relu_();
}

}  // namespace lockstep::kernels
