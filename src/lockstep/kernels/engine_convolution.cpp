#include "lockstep/kernels/engine_convolution.h"

#include <array>

#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/base/share.h"
#include "lockstep/kernels/first_derivative.h"
#include "lockstep/kernels/shards_together.h"

namespace lockstep::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The input has the type in which the engine computes. Weight and bias may be wider and are rounded here;
/// their gradients are not.
class EngineConvolution : public torch::autograd::Function<EngineConvolution> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const ConvolutionSteps& steps) {
    const at::Tensor own_weight = weight.to(input.scalar_type());
    const auto own_bias = bias ? std::optional(bias->to(input.scalar_type())) : std::nullopt;
    context->save_for_backward({input, own_weight});
    const auto list = [](c10::SymIntArrayRef values) { return C10_AS_INTARRAYREF_SLOW(values).vec(); };
    context->saved_data["stride"] = list(steps.stride);
    context->saved_data["padding"] = list(steps.padding);
    context->saved_data["dilation"] = list(steps.dilation);
    context->saved_data["groups"] = steps.groups.guard_int(__FILE__, __LINE__);
    context->saved_data["bias"] = bias.has_value();
    return shard_by_shard(input, [&](const at::Tensor& shard) {
      return at::conv2d_symint(shard, own_weight, own_bias, steps.stride, steps.padding, steps.dilation,
                               steps.groups);
    });
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    check_first_derivative();
    const auto saved = context->get_saved_variables();
    const at::Tensor& weight = saved[1];
    const int64_t shards = ShardsTogether::count();
    const std::vector<at::Tensor> inputs = saved[0].chunk(shards), outputs = gradients[0].chunk(shards);
    const auto list = [&](const char* name) { return context->saved_data[name].toIntVector(); };
    const auto stride = list("stride"), padding = list("padding"), dilation = list("dilation");
    const bool bias = context->saved_data["bias"].toBool();
    const std::array<bool, 3> wanted{context->needs_input_grad(0), context->needs_input_grad(1),
                                     bias && context->needs_input_grad(2)};
    std::vector<at::Tensor> input_gradients;
    const ParameterGradients sum = tree_sum(0, shards, [&](int64_t shard) {
      auto [by_input, by_weight, by_bias] = at::convolution_backward(
          outputs[static_cast<size_t>(shard)], inputs[static_cast<size_t>(shard)], weight,
          bias ? at::OptionalIntArrayRef(weight.size(0)) : std::nullopt, stride, padding, dilation,
          /*transposed=*/false, {0, 0}, context->saved_data["groups"].toInt(), wanted);
      if (wanted[0]) input_gradients.push_back(std::move(by_input));
      return ParameterGradients{wanted[1] ? widened(by_weight) : at::Tensor(),
                                wanted[2] ? widened(by_bias) : at::Tensor()};
    });
    return {wanted[0] ? at::cat(input_gradients) : at::Tensor(), sum.weight, sum.bias, at::Tensor()};
  }

 private:
  // Sums over shards are in 32 bits, also of gradients in 16 bits.
  static at::Tensor widened(const at::Tensor& gradient) {
    return gradient.scalar_type() == at::kDouble ? gradient : gradient.to(at::kFloat);
  }
};

}  // namespace

at::Tensor engine_convolution(const at::Tensor& input, const at::Tensor& weight,
                              const std::optional<at::Tensor>& bias, const ConvolutionSteps& steps,
                              at::ScalarType type) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(at::autocast_dispatch_keyset);
  return EngineConvolution::apply(input.to(type), weight, bias, steps);
}

}  // namespace lockstep::kernels
