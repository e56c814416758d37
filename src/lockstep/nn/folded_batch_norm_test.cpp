#include "lockstep/nn/folded_batch_norm.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "lockstep/nn/layers.h"
#include "lockstep/nn/state.h"

namespace lockstep::nn {
namespace {

using testing::ElementsAre;

constexpr NetworkInput kFoldedInput{3, 12, 12, 5};

// With random weights and statistics, in evaluation mode, in `type`.
Instance trained_instance(const Network& network, at::ScalarType type) {
  Instance instance = network.make(kFoldedInput);
  convert_floating(*instance.module, type);
  for (auto& [name, tensor] : state_of(*instance.module)) {
    if (name.ends_with("running_var")) tensor.uniform_(0.5, 2);
    if (name.ends_with("running_mean") || name.ends_with("bias")) tensor.uniform_(-0.5, 0.5);
    if (name.ends_with("weight") && tensor.dim() == 1) tensor.uniform_(0.5, 2);
  }
  instance.module->eval();
  return instance;
}

Instance folded_instance(const Network& network, const Instance& original, at::ScalarType type) {
  const FoldedNetwork folded = with_folded_batch_norms(network, state_of(*original.module), type);
  Instance instance = folded.network.make(kFoldedInput);
  convert_floating(*instance.module, type);
  load_state(*instance.module, {folded.state, {}}, "folded");
  instance.module->eval();
  return instance;
}

std::vector<std::string> names_of_layers(const Instance& instance) {
  std::vector<std::string> names;
  for (const InstanceLayer& layer : instance.layers) names.push_back(layer.name);
  return names;
}

double largest_difference(const Network& network, at::ScalarType type) {
  const at::NoGradGuard no_grad;
  at::manual_seed(1);
  const Instance original = trained_instance(network, type),
                 folded = folded_instance(network, original, type);
  const at::Tensor images = at::rand({4, 3, 12, 12}, type);
  const at::Tensor expected = original.forward(images);
  return ((folded.forward(images) - expected).abs().max() / expected.abs().max()).item<double>();
}

const Network& branched() {
  static const Network network = read_network(Json::parse(R"([
    {"name":"conv1","type":"conv2d","filters":8,"kernel":3,"padding":1,"bias":false},
    {"name":"norm1","type":"batch_norm"},
    {"name":"relu1","type":"relu"},
    {"name":"conv2","type":"conv2d","filters":8,"kernel":1},
    {"name":"norm2","type":"batch_norm","affine":false},
    {"name":"sum","type":"add","inputs":["relu1","norm2"]},
    {"name":"norm3","type":"batch_norm"},
    {"name":"conv3","type":"conv2d","filters":8,"kernel":3},
    {"name":"norm4","type":"batch_norm"},
    {"name":"more","type":"concatenate","inputs":["conv3","norm4"]},
    {"name":"flat","type":"flatten"},
    {"name":"linear1","type":"linear","features":6,"bias":false},
    {"name":"norm5","type":"batch_norm"},
    {"name":"linear2","type":"linear","features":"classes"}])"),
                                              "branched");
  return network;
}

TEST(FoldedBatchNorm, OnlyNormsDirectlyAfterALayerWithoutOtherReadersAreFolded) {
  const Instance original = trained_instance(branched(), at::kFloat);
  const FoldedNetwork folded = with_folded_batch_norms(branched(), state_of(*original.module), at::kFloat);
  EXPECT_THAT(names_of_layers(folded.network.make(kFoldedInput)),
              ElementsAre("conv1", "relu1", "conv2", "sum", "norm3", "conv3", "norm4", "more", "flat",
                          "linear1", "linear2"));
}

TEST(FoldedBatchNorm, OutputsDifferByRounding) {
  for (const Network& network : {branched(), find_network("resnet18"), find_network("mobilenet_v2")}) {
    EXPECT_LT(largest_difference(network, at::kDouble), 1e-9) << network.name();
    EXPECT_LT(largest_difference(network, at::kFloat), 1e-4) << network.name();
  }
}

TEST(FoldedBatchNorm, TensorsThatDoNotFitAreLeftToTheReader) {
  const Instance original = trained_instance(branched(), at::kFloat);
  NamedTensors state = state_of(*original.module);
  std::erase_if(state, [](const auto& tensor) { return tensor.first == "norm2.running_var"; });
  const size_t count = state.size();
  const FoldedNetwork same = with_folded_batch_norms(branched(), std::move(state), at::kFloat);
  EXPECT_EQ(same.state.size(), count);
  EXPECT_EQ(names_of_layers(same.network.make(kFoldedInput)).size(), 14U);
}

}  // namespace
}  // namespace lockstep::nn
