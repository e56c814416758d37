#include "lockstep/nn/layers/over_time.h"

#include <limits>

#include <ATen/ATen.h>
#include <torch/nn/modules/conv.h>

#include "lockstep/nn/layers/pooling.h"
#include "lockstep/nn/time_span.h"

namespace lockstep::nn {
namespace {

/// A layer whose function takes the unpadded part of a mini-batch, [b,C,count], with zeros where it is
/// padding.
template <class Function>
BuiltLayer over_span(std::shared_ptr<torch::nn::Module> module, Function function) {
  BuiltLayer built{.module = std::move(module)};
  built.forward_sequence = [function](const at::Tensor& taken, const TimeSteps& times,
                                      std::vector<at::Tensor>&) {
    // A time step has few numbers, so float32 is as fast as narrower types, also under autocast.
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    return function(taken, span_of(times, taken.size(2), taken.device()), times);
  };
  return built;
}

at::Tensor convolve(const torch::nn::Conv1dImpl& module, const at::Tensor& values, const TimeSpan& span,
                    TimePadding padding) {
  const int64_t kernel = module.weight.size(2), dilation = (*module.options.dilation())[0];
  const int64_t missing = dilation * (kernel - 1);
  const int64_t before = padding == TimePadding::causal ? missing : missing / 2;
  const at::Tensor input =
      at::constant_pad_nd(span.cut(values).to(module.weight.scalar_type()), {before, missing - before});
  const at::Tensor output =
      at::conv1d(input, module.weight, module.bias, 1, at::IntArrayRef{0}, dilation, module.options.groups());
  return span.padding.defined() ? output.masked_fill(span.padding_by_row(), 0) : output;
}

at::Tensor lengths_on(const TimeSteps& times, const at::Tensor& values) {
  return times.lengths.to(values.device()).unsqueeze(1);
}

at::Tensor mean_over_time(const at::Tensor& values, const TimeSpan& span, const TimeSteps& times) {
  return span.cut(values).sum(2) / lengths_on(times, values).clamp_min(1).to(values.scalar_type());
}

at::Tensor maximum_over_time(const at::Tensor& values, const TimeSpan& span, const TimeSteps& times) {
  const at::Tensor part = values.narrow(2, span.begin, span.count);
  if (!span.padding.defined()) return std::get<0>(part.max(2));
  const double lowest = -std::numeric_limits<double>::infinity();
  const at::Tensor most = std::get<0>(part.masked_fill(span.padding_by_row(), lowest).max(2));
  return most.masked_fill(lengths_on(times, values) == 0, 0);
}

template <class Pool>
LayerPlan plan_pool_over_time(const LayerInput& input, Pool pool) {
  LayerPlan plan{.detail = "over time", .output = {input.shape.front()}, .needs_whole_sequences = true};
  plan.build = [pool](bool) { return over_span(nullptr, pool); };
  return plan;
}

std::string detail_of(const Conv1d& options) {
  std::string text = std::to_string(options.filters) + " of " + std::to_string(options.kernel);
  if (options.padding == TimePadding::causal) text += ", causal";
  if (options.dilation != 1) text += ", dilation " + std::to_string(options.dilation);
  if (options.groups != 1) text += ", " + std::to_string(options.groups) + " groups";
  return text + (options.bias ? "" : ", no bias");
}

}  // namespace

LayerPlan plan_conv1d(const Conv1d& options, const std::vector<LayerInput>& inputs) {
  const LayerInput& input = sequence_input(inputs);
  const int64_t channels = input.shape.front();
  if (options.filters == 0) throw Misfit{"needs \"filters\", the number of channels of its output", ""};
  if (options.kernel == 0)
    throw Misfit{"needs \"kernel\", the number of time steps in its window", "add for example \"kernel\": 3"};
  check_groups(options.groups, options.filters, input);
  LayerPlan plan{.detail = detail_of(options),
                 .output = {options.filters, input.shape.back()},
                 .needs_whole_sequences = options.kernel > 1};
  checked_count(plan.output, "an output");
  plan.learnables.push_back({"weight", {options.filters, channels / options.groups, options.kernel}});
  if (options.bias) plan.learnables.push_back({"bias", {options.filters}});
  plan.build = [options, channels](bool) {
    auto module = std::make_shared<torch::nn::Conv1dImpl>(
        torch::nn::Conv1dOptions(channels, options.filters, options.kernel)
            .dilation(options.dilation)
            .groups(options.groups)
            .bias(options.bias));
    initialize(options.initializer, module->weight, module->bias);
    return over_span(module, [module, padding = options.padding](const at::Tensor& values,
                                                                 const TimeSpan& span, const TimeSteps&) {
      return span.widen(convolve(*module, values, span, padding), values.size(2));
    });
  };
  return plan;
}

LayerPlan plan_global_max_pool(const NoOptions&, const std::vector<LayerInput>& inputs) {
  const LayerInput& input = only_input(inputs);
  if (input.shape.size() == 2) return plan_pool_over_time(input, maximum_over_time);
  const Shape& images = image_input(inputs).shape;
  MaxPool whole;
  whole.kernel = {images[1], images[2]};
  LayerPlan plan = plan_max_pool(whole, inputs);
  plan.detail.clear();
  return plan;
}

LayerPlan plan_global_average_pool(const NoOptions&, const std::vector<LayerInput>& inputs) {
  const LayerInput& input = only_input(inputs);
  if (input.shape.size() == 2) return plan_pool_over_time(input, mean_over_time);
  LayerPlan plan = plan_adaptive_average_pool({}, inputs);
  plan.detail.clear();
  return plan;
}

}  // namespace lockstep::nn
