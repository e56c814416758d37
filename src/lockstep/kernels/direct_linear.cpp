#include "lockstep/kernels/direct_linear.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/kernels/direct_kernels.h"
#include "lockstep/kernels/linear_kernels.h"
#include "lockstep/kernels/memory_order.h"
#include "lockstep/kernels/gradient_target.h"
#include "lockstep/kernels/first_derivative.h"
#include "lockstep/kernels/internal/typed.h"
#include "lockstep/kernels/shards_together.h"

namespace lockstep::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Above both limits, the engine's matrix product uses the caches better.
constexpr int64_t kFewOutputs = 32;
constexpr int64_t kFewImages = 16;
constexpr int64_t kShardsTogether = 4;  // that a worker mostly computes in one batch; 32 shards and 8 workers

kernels::LinearShape shape_of(const at::Tensor& input, const at::Tensor& weight) {
  return {input.size(0), weight.size(1), weight.size(0), ShardsTogether::count()};
}

/// [outputs, rows, columns] to [outputs, columns, rows]
at::Tensor transposed(const at::Tensor& matrices, int64_t rows, int64_t columns) {
  at::Tensor result = at::empty_like(matrices);
  visit_type(matrices.scalar_type(), [&](auto type) {
    using T = decltype(type);
    kernels::linear_kernels<T>().transpose(data<T>(matrices), matrices.numel() / (rows * columns), rows,
                                           columns, data<T>(result));
  });
  return result;
}

/// Weight and bias are float32, also for bfloat16 inputs. They are rounded here; their gradients are not.
class DirectLinear : public torch::autograd::Function<DirectLinear> {
 public:
  /// own_layer: only this layer uses the weight, so its gradient may be written to the GradientTarget.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, bool own_layer) {
    const at::Tensor own_weight = weight.to(input.scalar_type());
    const at::Tensor own_bias = bias ? bias->to(input.scalar_type()).contiguous() : at::Tensor();
    const at::Tensor ordered = is_channels_last(input)
                                   ? transposed(own_weight, input.size(1), input.size(2) * input.size(3))
                                   : own_weight;
    const at::Tensor output = at::empty({input.size(0), weight.size(0)}, input.options());
    visit_type(input.scalar_type(), [&](auto type) {
      using T = decltype(type);
      kernels::linear_kernels<T>().forward(shape_of(input, weight), data<T>(input), data<T>(ordered),
                                           data<T>(own_bias), data<T>(output));
    });
    GradientTarget* target = own_layer && !is_channels_last(input) ? GradientTarget::current() : nullptr;
    if (target != nullptr) target->note_use(weight);
    context->saved_data["may_take"] = target != nullptr;
    context->save_for_backward({input, ordered, weight});
    context->saved_data["bias"] = bias.has_value();
    return output;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    check_first_derivative();
    const auto saved = context->get_saved_variables();
    const at::Tensor& input = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor gradient = gradients[0].to(input.scalar_type()).contiguous();
    const auto shape = shape_of(input, weight);
    GradientTarget* target = GradientTarget::current();
    float* place =
        target != nullptr && context->saved_data["may_take"].toBool() && context->needs_input_grad(1)
            ? target->take(saved[2])
            : nullptr;
    at::Tensor input_gradient, weight_gradient, bias_gradient;
    if (place == nullptr) weight_gradient = at::empty_like(weight, weight.options().dtype(at::kFloat));
    if (context->saved_data["bias"].toBool())
      bias_gradient = at::empty({shape.outputs}, weight.options().dtype(at::kFloat));
    visit_type(input.scalar_type(), [&](auto type) {
      using T = decltype(type);
      const auto& kernels = kernels::linear_kernels<T>();
      const auto write =
          place != nullptr && target->adds() ? kernels.add_weight_gradient : kernels.weight_gradient;
      write(shape, data<T>(gradient), data<T>(input),
            place != nullptr ? place : data<float>(weight_gradient));
      if (bias_gradient.defined())
        kernels.bias_gradient(shape, data<T>(gradient), data<float>(bias_gradient));
      if (!context->needs_input_grad(0)) return;
      input_gradient = at::empty_like(input);
      kernels.input_gradient(shape, data<T>(gradient), data<T>(weight), data<T>(input_gradient));
    });
    if (is_channels_last(input))
      weight_gradient = transposed(weight_gradient, input.size(2) * input.size(3), input.size(1));
    return {input_gradient, weight_gradient, bias_gradient, at::Tensor()};
  }
};

/// The type in which the engine would compute.
at::ScalarType type_of(const at::Tensor& input) {
  return at::autocast::is_autocast_enabled(at::kCPU) ? at::autocast::get_autocast_dtype(at::kCPU)
                                                     : input.scalar_type();
}

bool fits(const at::Tensor& input, const at::Tensor& weight) {
  const bool dense = input.is_contiguous() || is_channels_last(input);
  return DirectKernels::enabled() && input.is_cpu() && input.numel() > 0 && dense &&
         weight.scalar_type() == at::kFloat &&
         (type_of(input) == at::kFloat ||
          (type_of(input) == at::kBFloat16 && input.scalar_type() != at::kDouble)) &&
         weight.dim() == 2 && weight.is_contiguous() &&
         (weight.size(0) <= kFewOutputs || ShardsTogether::samples_of_each(input.size(0)) <= kFewImages) &&
         input.numel() == input.size(0) * weight.size(1);
}

std::optional<at::Tensor> if_fits(const at::Tensor& input, const at::Tensor& weight,
                                  const std::optional<at::Tensor>& bias, bool own_layer) {
  if (!fits(input, weight) || (bias && bias->defined() && bias->numel() != weight.size(0)))
    return std::nullopt;
  return DirectLinear::apply(input.to(type_of(input)), weight, bias && bias->defined() ? bias : std::nullopt,
                             own_layer);
}

}  // namespace

std::optional<at::Tensor> direct_linear(const at::Tensor& input, const at::Tensor& weight,
                                        const std::optional<at::Tensor>& bias) {
  return input.dim() == 2 ? if_fits(input, weight, bias, /*own_layer=*/false) : std::nullopt;
}

at::Tensor linear(torch::nn::LinearImpl& module, const at::Tensor& input) {
  // The smaller one of weight and input is reordered like the other: the weight once for all shards of a
  // batch. How many these are must not matter, for the order decides the last bits.
  if (is_channels_last(input) &&
      kShardsTogether * ShardsTogether::samples_of_each(input.size(0)) < module.weight.size(0))
    return linear(module, input.flatten(1));
  if (const auto output = if_fits(input, module.weight, module.bias, /*own_layer=*/true)) return *output;
  ShardsTogether::mix();
  return module.forward(input.dim() == 4 ? input.flatten(1) : input);
}

}  // namespace lockstep::kernels
