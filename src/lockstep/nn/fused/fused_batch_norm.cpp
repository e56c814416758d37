#include "lockstep/nn/fused/fused_batch_norm.h"

#include <cmath>
#include <vector>

#include <ATen/Functions.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/batchnorm.h>

#include "lockstep/nn/fused/channel_kernels.h"
#include "lockstep/nn/internal/typed.h"

namespace lockstep::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool is_fusible(const torch::nn::BatchNorm2dImpl& module, const at::Tensor& input) {
  return module.is_training() == at::GradMode::is_enabled() && module.options.affine() && module.options.track_running_stats() &&
         module.weight.scalar_type() == at::kFloat && input.dim() == 4 && input.is_cpu() && input.numel() > 0 &&
         input.numel() > input.size(1) && (input.scalar_type() == at::kFloat || input.scalar_type() == at::kBFloat16) &&
         input.is_contiguous(at::MemoryFormat::ChannelsLast);
}

class FusedBatchNorm : public torch::autograd::Function<FusedBatchNorm> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias, torch::nn::BatchNorm2dImpl* module,
                            bool relu) {
    const int64_t channels = input.size(1);
    const int64_t rows = input.numel() / channels;
    const at::Tensor saved = at::empty({4, channels}, at::kFloat);  // scale, shift, mean, 1 / deviation
    float* scale = data<float>(saved);
    float* shift = scale + channels;
    float* mean = shift + channels;
    float* inverse = mean + channels;
    std::vector<float> deviation(static_cast<size_t>(channels));
    const at::Tensor output = at::empty_like(input);
    visit_type(input.scalar_type(), [&](auto type) {
      using T = decltype(type);
      const auto& kernels = fused::channel_kernels<T>();
      kernels.moments(data<T>(input), rows, channels, mean, deviation.data());
      for (int64_t c = 0; c < channels; ++c) {
        inverse[c] = 1.0F / std::sqrt(deviation[static_cast<size_t>(c)] / static_cast<float>(rows) + static_cast<float>(module->options.eps()));
        scale[c] = data<float>(weight)[c] * inverse[c];
        shift[c] = data<float>(bias)[c] - mean[c] * scale[c];
      }
      kernels.transform(data<T>(input), rows, channels, scale, shift, relu, data<T>(output));
    });
    move_statistics(*module, mean, deviation, rows);
    context->save_for_backward({input, saved});
    context->saved_data["relu"] = relu;
    return output;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto tensors = context->get_saved_variables();
    const at::Tensor& input = tensors[0];
    const at::Tensor& saved = tensors[1];
    const bool relu = context->saved_data["relu"].toBool();
    const int64_t channels = input.size(1);
    const int64_t rows = input.numel() / channels;
    const float* scale = data<float>(saved);
    const float* shift = scale + channels;
    const float* mean = shift + channels;
    const float* inverse = mean + channels;
    const at::Tensor gradient = gradients[0].to(input.scalar_type()).contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor input_gradient = at::empty_like(input);
    const at::Tensor weight_gradient = at::empty({channels}, at::kFloat);
    const at::Tensor bias_gradient = at::empty({channels}, at::kFloat);
    std::vector<float> products(static_cast<size_t>(channels)), slope(static_cast<size_t>(channels)), offset(static_cast<size_t>(channels));
    float* sum = data<float>(bias_gradient);
    visit_type(input.scalar_type(), [&](auto type) {
      using T = decltype(type);
      const auto& kernels = fused::channel_kernels<T>();
      kernels.gradient_sums(data<T>(gradient), data<T>(input), rows, channels, scale, shift, mean, relu, sum, products.data());
      const auto count = static_cast<float>(rows);
      for (int64_t c = 0; c < channels; ++c) {
        const auto i = static_cast<size_t>(c);
        data<float>(weight_gradient)[c] = products[i] * inverse[c];
        slope[i] = -scale[c] * inverse[c] * inverse[c] * products[i] / count;
        offset[i] = -scale[c] * sum[c] / count;
      }
      kernels.input_gradient(data<T>(gradient), data<T>(input), rows, channels, scale, shift, mean, slope.data(), offset.data(), relu, data<T>(input_gradient));
    });
    return {input_gradient, weight_gradient, bias_gradient, at::Tensor(), at::Tensor()};
  }

 private:
  static void move_statistics(torch::nn::BatchNorm2dImpl& module, const float* mean, const std::vector<float>& deviation, int64_t rows) {
    module.num_batches_tracked.add_(1);
    const double momentum = module.options.momentum().value_or(1.0 / static_cast<double>(module.num_batches_tracked.item<int64_t>()));
    const auto keep = static_cast<float>(1 - momentum);
    const auto take = static_cast<float>(momentum);
    float* running_mean = data<float>(module.running_mean);
    float* running_variance = data<float>(module.running_var);
    for (size_t c = 0; c < deviation.size(); ++c) {
      running_mean[c] = keep * running_mean[c] + take * mean[c];
      running_variance[c] = keep * running_variance[c] + take * (deviation[c] / static_cast<float>(rows - 1));
    }
  }
};

/// Without gradients, by the running statistics.
at::Tensor inference(const torch::nn::BatchNorm2dImpl& module, const at::Tensor& input, bool relu) {
  const int64_t channels = input.size(1);
  std::vector<float> scale(static_cast<size_t>(channels)), shift(static_cast<size_t>(channels));
  for (int64_t c = 0; c < channels; ++c) {
    const auto i = static_cast<size_t>(c);
    scale[i] = data<float>(module.weight)[c] / std::sqrt(data<float>(module.running_var)[c] + static_cast<float>(module.options.eps()));
    shift[i] = data<float>(module.bias)[c] - data<float>(module.running_mean)[c] * scale[i];
  }
  const at::Tensor output = at::empty_like(input);
  visit_type(input.scalar_type(), [&](auto type) {
    using T = decltype(type);
    fused::channel_kernels<T>().transform(data<T>(input), input.numel() / channels, channels, scale.data(), shift.data(), relu, data<T>(output));
  });
  return output;
}

}  // namespace

at::Tensor batch_norm(torch::nn::BatchNorm2dImpl& module, const at::Tensor& input, bool relu) {
  if (is_fusible(module, input) && !module.is_training()) return inference(module, input, relu);
  if (is_fusible(module, input)) return FusedBatchNorm::apply(input, module.weight, module.bias, &module, relu);
  at::Tensor output = module.forward(input);
  return relu ? output.relu_() : output;
}

}  // namespace lockstep::nn
