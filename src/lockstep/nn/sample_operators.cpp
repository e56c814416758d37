#include "lockstep/nn/sample_operators.h"

#include <algorithm>
#include <array>

namespace lockstep::nn {
namespace {

// No operator of random numbers, and none whose vector and scalar instructions may round differently.
constexpr auto kOperators = std::to_array<SampleOperator>({
    {"aten::conv2d", OperatorRule::layer},
    {"aten::linear", OperatorRule::layer},
    {"aten::matmul", OperatorRule::layer},
    {"aten::addmm", OperatorRule::layer, 1},
    {"aten::batch_norm", OperatorRule::layer},
    {"aten::t", OperatorRule::transpose},
    {"aten::relu", OperatorRule::one_batch},
    {"aten::relu_", OperatorRule::one_batch},
    {"aten::relu6", OperatorRule::one_batch},
    {"aten::relu6_", OperatorRule::one_batch},
    {"aten::hardtanh", OperatorRule::one_batch},
    {"aten::hardtanh_", OperatorRule::one_batch},
    {"aten::max_pool2d", OperatorRule::one_batch},
    {"aten::avg_pool2d", OperatorRule::one_batch},
    {"aten::adaptive_avg_pool2d", OperatorRule::one_batch},
    {"aten::mean.dim", OperatorRule::mean},
    {"aten::contiguous", OperatorRule::one_batch},
    {"aten::view", OperatorRule::one_batch},
    {"aten::reshape", OperatorRule::one_batch},
    {"aten::flatten.using_ints", OperatorRule::one_batch},
    {"aten::add.Tensor", OperatorRule::equal_pair},
    {"aten::add_.Tensor", OperatorRule::equal_pair},
    {"aten::cat", OperatorRule::concatenate},
});

constexpr std::string_view kOwnKernels = "torch::autograd::CppNode<lockstep::kernels::";

// Without the number at the end of their names. ConvolutionBackward is that of one shard alone; several go
// through kernels/engine_convolution.h.
constexpr auto kGradients = std::to_array<std::string_view>({
    "torch::autograd::AccumulateGrad",
    "ConvolutionBackward",
    "TBackward",
    "ToCopyBackward",
    "ViewBackward",
    "AsStridedBackward",  // within adaptive_avg_pool2d
    "UnsafeViewBackward",
    "ReshapeAliasBackward",
    "CloneBackward",
    "ReluBackward",
    "HardtanhBackward",
    "MaxPool2DWithIndicesBackward",
    "AvgPool2DBackward",
    "AdaptiveAvgPool2DBackward",
    "MeanBackward",
    "AddBackward",
    "CatBackward",
});

}  // namespace

const SampleOperator* find_sample_operator(std::string_view name) {
  const auto found = std::ranges::find(kOperators, name, &SampleOperator::name);
  return found == kOperators.end() ? nullptr : &*found;
}

bool is_sample_gradient(std::string_view node) {
  if (node.starts_with(kOwnKernels)) return true;
  const size_t last = node.find_last_not_of("0123456789");
  return std::ranges::find(kGradients, node.substr(0, last + 1)) != kGradients.end();
}

}  // namespace lockstep::nn
