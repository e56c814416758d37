#include "lockstep/nn/layers/merge.h"

#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>

#include "lockstep/kernels/direct_kernels.h"
#include "lockstep/kernels/fused_relu.h"

namespace lockstep::nn {
namespace {

void check_several(const std::vector<LayerInput>& inputs) {
  if (inputs.size() < 2)
    throw Misfit{"needs at least two inputs, but has " + std::to_string(inputs.size()),
                 "name them: \"inputs\": [\"a\", \"b\"]"};
}

[[noreturn]] void shapes_clash(const LayerInput& first, const LayerInput& other, const char* rule) {
  throw Misfit{"cannot join " + shape_text(first.shape) + " from \"" + first.name + "\" and " +
                   shape_text(other.shape) + " from \"" + other.name + "\": " + rule,
               ""};
}

at::Tensor relu_of_sum(const std::vector<at::Tensor>& taken) {
  return kernels::DirectKernels::enabled() && kernels::fits_fused_relu(taken)
             ? kernels::add_relu(taken[0], taken[1])
             : at::add(taken[0], taken[1]).relu_();
}

at::Tensor relu_of_concatenation(const std::vector<at::Tensor>& taken, const at::Tensor& whole) {
  return kernels::DirectKernels::enabled() && kernels::fits_concatenate_relu(taken, whole)
             ? kernels::concatenate_relu(taken, whole)
             : at::cat(taken, 1).relu_();
}

}  // namespace

LayerPlan plan_add(const NoOptions&, const std::vector<LayerInput>& inputs) {
  check_several(inputs);
  for (const LayerInput& input : inputs) {
    if (input.shape != inputs.front().shape)
      shapes_clash(inputs.front(), input, "all inputs must have the same shape");
  }
  LayerPlan plan{.detail = "of " + std::to_string(inputs.size()),
                 .output = inputs.front().shape,
                 .output_is_reusable = true,
                 .keeps_shards_apart = true};
  plan.build = [](bool) {
    return BuiltLayer{nullptr, [](const std::vector<at::Tensor>& taken) {
                        at::Tensor sum = at::add(taken[0], taken[1]);
                        for (size_t i = 2; i < taken.size(); ++i) sum.add_(taken[i]);
                        return sum;
                      }};
  };
  if (inputs.size() == 2) plan.build_with_relu = [] { return BuiltLayer{nullptr, &relu_of_sum}; };
  return plan;
}

LayerPlan plan_concatenate(const NoOptions&, const std::vector<LayerInput>& inputs) {
  check_several(inputs);
  Shape output = inputs.front().shape;
  output.front() = 0;
  for (const LayerInput& input : inputs) {
    Shape expected = inputs.front().shape;
    expected.front() = input.shape.front();
    if (input.shape != expected)
      shapes_clash(inputs.front(), input, "all sizes except the channels must be equal");
    output.front() += input.shape.front();
  }
  checked_count(output, "an output");
  LayerPlan plan{.detail = "of " + std::to_string(inputs.size()),
                 .output = output,
                 .output_is_reusable = true,
                 .keeps_shards_apart = true,
                 .relu_may_precede = true};
  plan.build = [](bool) {
    return BuiltLayer{nullptr, [](const std::vector<at::Tensor>& taken) { return at::cat(taken, 1); }};
  };
  plan.build_with_relu = [] {
    return BuiltLayer{
        .module = nullptr,
        .forward = [](const std::vector<at::Tensor>& taken) { return relu_of_concatenation(taken, {}); },
        .forward_joined =
            [](const std::vector<at::Tensor>& taken, const kernels::JoinedImages& joined) {
              return relu_of_concatenation(taken, joined.whole);
            }};
  };
  return plan;
}

}  // namespace lockstep::nn
