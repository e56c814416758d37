#include "lockstep/nn/layers/convolution.h"

#include <torch/nn/modules/conv.h>

#include "lockstep/kernels/convolution_kernels.h"
#include "lockstep/kernels/direct_convolution.h"

namespace lockstep::nn {
namespace {

bool is_direct(kernels::ConvolutionShape shape, int64_t batch, bool half) {
  shape.batch = batch;
  return half ? kernels::is_worthwhile<kernels::BFloat16>(shape) : kernels::is_worthwhile<float>(shape);
}

std::string detail_of(const Conv2d& options, Pair kernel, Pair stride, Pair padding, Pair dilation) {
  std::string text = std::to_string(options.filters) + " of " + pair_text(kernel);
  if (stride.height != 1 || stride.width != 1) text += ", stride " + pair_text(stride);
  if (padding.height != 0 || padding.width != 0) text += ", padding " + pair_text(padding);
  if (dilation.height != 1 || dilation.width != 1) text += ", dilation " + pair_text(dilation);
  if (options.groups != 1) text += ", " + std::to_string(options.groups) + " groups";
  return text + (options.bias ? "" : ", no bias");
}

}  // namespace

LayerPlan plan_conv2d(const Conv2d& options, const std::vector<LayerInput>& inputs) {
  const LayerInput& input = image_input(inputs);
  if (options.filters == 0) throw Misfit{"needs \"filters\", the number of channels of its output", ""};
  if (options.kernel.empty())
    throw Misfit{"needs \"kernel\", the size of its window",
                 "add \"kernel\": 3, or [3, 5] for height and width"};
  check_groups(options.groups, options.filters, input);
  const Pair kernel = pair_of(options.kernel, "kernel", {1, 1});
  const Pair stride = pair_of(options.stride, "stride", {1, 1});
  const Pair padding = pair_of(options.padding, "padding", {0, 0});
  const Pair dilation = pair_of(options.dilation, "dilation", {1, 1});
  LayerPlan plan{.detail = detail_of(options, kernel, stride, padding, dilation),
                 .output_is_reusable = true,
                 .keeps_shards_apart = true};
  plan.output = windowed_shape(input, options.filters,
                               {kernel.height, stride.height, padding.height, dilation.height, false},
                               {kernel.width, stride.width, padding.width, dilation.width, false});
  plan.learnables.push_back(
      {"weight", {options.filters, input.shape[0] / options.groups, kernel.height, kernel.width}});
  if (options.bias) plan.learnables.push_back({"bias", {options.filters}});
  const bool depthwise =
      options.groups > 1 && options.groups == input.shape[0] && options.groups == options.filters;
  const bool plain = dilation.height == 1 && dilation.width == 1 && (options.groups == 1 || depthwise);
  const bool overlaps = padding.height < kernel.height && padding.width < kernel.width;
  const kernels::ConvolutionShape shape{0,
                                        input.shape[0],
                                        input.shape[1],
                                        input.shape[2],
                                        options.filters,
                                        kernel.height,
                                        kernel.width,
                                        padding.height,
                                        padding.width,
                                        false,
                                        stride.height,
                                        stride.width,
                                        1,
                                        depthwise};
  plan.runs_direct = [shape, possible = plain && overlaps](int64_t batch, bool half) {
    return possible && is_direct(shape, batch, half);
  };
  const auto settings =
      torch::nn::Conv2dOptions(input.shape[0], options.filters, {kernel.height, kernel.width})
          .stride({stride.height, stride.width})
          .padding({padding.height, padding.width})
          .dilation({dilation.height, dilation.width})
          .groups(options.groups)
          .bias(options.bias);
  const auto make = [settings, initializer = options.initializer] {
    auto module = std::make_shared<torch::nn::Conv2dImpl>(settings);
    initialize(initializer, module->weight, module->bias);
    return module;
  };
  plan.readers_take_relu = true;
  plan.build_with_relu = [make] {
    const auto module = make();
    return BuiltLayer{module, [module](const std::vector<at::Tensor>& taken) {
                        return kernels::convolution_relu(*module, taken[0]);
                      }};
  };
  plan.build = [make](bool) {
    const auto module = make();
    return BuiltLayer{
        .module = module,
        .forward = [module](const std::vector<at::Tensor>& taken) { return module->forward(taken[0]); },
        .forward_joined =
            [module](const std::vector<at::Tensor>& taken, const kernels::JoinedImages& joined) {
              return kernels::joined_convolution(*module, taken[0], joined);
            }};
  };
  return plan;
}

}  // namespace lockstep::nn
