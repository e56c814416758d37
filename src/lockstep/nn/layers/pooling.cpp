#include "lockstep/nn/layers/pooling.h"

#include <array>

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/max_pool2d.h>

#include "lockstep/kernels/direct_kernels.h"
#include "lockstep/kernels/direct_pooling.h"
#include "lockstep/kernels/shards_together.h"
#include "lockstep/nn/layers/adaptive_average.h"

namespace lockstep::nn {
namespace {

struct PoolWindows {
  Pair kernel;
  Pair stride;
  Pair padding;
};

template <class Options>
PoolWindows windows_of(const Options& options) {
  if (options.kernel.empty())
    throw Misfit{"needs \"kernel\", the size of its window",
                 "add \"kernel\": 2, or [2, 3] for height and width"};
  PoolWindows windows;
  windows.kernel = pair_of(options.kernel, "kernel", {1, 1});
  windows.stride = pair_of(options.stride, "stride", windows.kernel);
  windows.padding = pair_of(options.padding, "padding", {0, 0});
  if (windows.padding.height > windows.kernel.height / 2 ||
      windows.padding.width > windows.kernel.width / 2) {
    throw Misfit{"has padding " + pair_text(windows.padding) + ", more than half of its kernel " +
                     pair_text(windows.kernel),
                 ""};
  }
  return windows;
}

std::string detail_of(const PoolWindows& windows, bool ceil_mode) {
  std::string text = pair_text(windows.kernel) + ", stride " + pair_text(windows.stride);
  if (windows.padding.height != 0 || windows.padding.width != 0)
    text += ", padding " + pair_text(windows.padding);
  return text + (ceil_mode ? ", ceil" : "");
}

std::array<int64_t, 2> array_of(Pair pair) { return {pair.height, pair.width}; }

}  // namespace

LayerPlan plan_max_pool(const MaxPool& options, const std::vector<LayerInput>& inputs) {
  const LayerInput& input = image_input(inputs);
  const PoolWindows windows = windows_of(options);
  const Pair dilation = pair_of(options.dilation, "dilation", {1, 1});
  LayerPlan plan{
      .detail = detail_of(windows, options.ceil_mode), .keeps_shards_apart = true, .relu_may_precede = true};
  const kernels::Window rows{windows.kernel.height, windows.stride.height, windows.padding.height,
                             dilation.height, options.ceil_mode};
  const kernels::Window columns{windows.kernel.width, windows.stride.width, windows.padding.width,
                                dilation.width, options.ceil_mode};
  plan.output = windowed_shape(input, input.shape[0], rows, columns);
  const auto max_pool = [windows, dilation, ceil_mode = options.ceil_mode](const at::Tensor& tensor) {
    return at::max_pool2d(tensor, array_of(windows.kernel), array_of(windows.stride),
                          array_of(windows.padding), array_of(dilation), ceil_mode);
  };
  plan.build = [max_pool](bool) {
    return BuiltLayer{nullptr,
                      [max_pool](const std::vector<at::Tensor>& taken) { return max_pool(taken[0]); }};
  };
  plan.build_with_relu = [max_pool, rows, columns] {
    return BuiltLayer{nullptr, [=](const std::vector<at::Tensor>& taken) {
                        const auto output = kernels::DirectKernels::enabled()
                                                ? kernels::direct_max_pool(taken[0], rows, columns, true)
                                                : std::nullopt;
                        return output ? *output : max_pool(taken[0]).relu_();
                      }};
  };
  return plan;
}

LayerPlan plan_average_pool(const AveragePool& options, const std::vector<LayerInput>& inputs) {
  const LayerInput& input = image_input(inputs);
  const PoolWindows windows = windows_of(options);
  LayerPlan plan{.detail = detail_of(windows, options.ceil_mode), .keeps_shards_apart = true};
  plan.output = windowed_shape(
      input, input.shape[0],
      {windows.kernel.height, windows.stride.height, windows.padding.height, 1, options.ceil_mode},
      {windows.kernel.width, windows.stride.width, windows.padding.width, 1, options.ceil_mode});
  plan.build = [windows, ceil_mode = options.ceil_mode](bool) {
    return BuiltLayer{nullptr, [=](const std::vector<at::Tensor>& taken) {
                        return kernels::shard_by_shard(taken[0], [&](const at::Tensor& shard) {
                          return at::avg_pool2d(shard, array_of(windows.kernel), array_of(windows.stride),
                                                array_of(windows.padding), ceil_mode);
                        });
                      }};
  };
  return plan;
}

LayerPlan plan_adaptive_average_pool(const AdaptiveAveragePool& options,
                                     const std::vector<LayerInput>& inputs) {
  const Pair size = pair_of(options.size, "size", {1, 1});
  LayerPlan plan{.detail = "to " + pair_text(size),
                 .output = {image_input(inputs).shape[0], size.height, size.width},
                 .keeps_shards_apart = true};
  checked_count(plan.output, "an output");
  plan.build = [size](bool) {
    return BuiltLayer{nullptr, [size](const std::vector<at::Tensor>& taken) {
                        return kernels::shard_by_shard(taken[0], [&](const at::Tensor& shard) {
                          // CUDA's backward has no repeatable bits, but for one mean of each channel.
                          return shard.is_cuda() && (size.height > 1 || size.width > 1)
                                     ? repeatable_adaptive_average(shard, size)
                                     : at::adaptive_avg_pool2d(shard, array_of(size));
                        });
                      }};
  };
  return plan;
}

}  // namespace lockstep::nn
