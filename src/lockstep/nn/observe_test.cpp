#include <map>

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/utils.h>

#include "lockstep/base/error.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/observe.h"
#include "lockstep/nn/state.h"

namespace lockstep::nn {
namespace {

using testing::HasSubstr;

// Weights and statistics that are not what layers begin with.
Instance drawn(const Network& network, const NetworkInput& input) {
  at::manual_seed(3);
  Instance instance = network.make(input);
  const torch::NoGradGuard no_grad;
  for (auto& buffer : instance.module->buffers()) {
    if (buffer.is_floating_point()) buffer.uniform_(0.5, 1.5);
  }
  instance.module->eval();
  return instance;
}

at::Tensor output_of(const Network& network, const NetworkInput& input, const std::string& layer,
                     const at::Tensor& images) {
  const ObservedLayer observed = observe_layer(network, input, layer);
  const torch::NoGradGuard no_grad;
  const at::Tensor output = drawn(observed.network, input).forward_part(images, 0, observed.layer_count);
  EXPECT_EQ(output.sizes().slice(1).vec(), observed.shape) << layer;
  return output;
}

TEST(Observe, EachLayerGivesWhatItsTypeDoes) {
  const NetworkInput input{1, 28, 28, 10};
  const Network network = find_network("digits_cnn");
  const at::Tensor images = at::rand({3, 1, 28, 28});
  std::map<std::string, at::Tensor> outputs;
  int64_t relus = 0, norms = 0;
  for (const LayerRow& row : inspect_network(network, input).rows) {
    outputs[row.name] = output_of(network, input, row.name, images);
    if (row.inputs.front() == "input") continue;
    const at::Tensor& from = outputs.at(row.inputs.front());
    if (row.type == "relu") {
      EXPECT_TRUE(at::equal(outputs[row.name], from.relu())) << row.name;
      EXPECT_LT(from.min().item<float>(), 0) << row.inputs.front() << " gives what it gives before the ReLU";
      ++relus;
    }
    norms += row.type == "batch_norm";
  }
  EXPECT_GT(relus, 0);
  EXPECT_GT(norms, 0);
}

TEST(Observe, TheLastLayerGivesTheLogits) {
  for (const char* name : {"lenet", "squeezenet", "resnet18"}) {
    const NetworkInput input{3, 64, 64, 7};
    const Network network = find_network(name);
    const at::Tensor images = at::rand({2, 3, 64, 64});
    const torch::NoGradGuard no_grad;
    const at::Tensor logits = drawn(network, input).forward(images);
    const std::string last = inspect_network(network, input).rows.back().name;
    EXPECT_TRUE(at::allclose(output_of(network, input, last, images), logits, 1e-5, 1e-6)) << name;
  }
}

TEST(Observe, SequencesKeepTheirTimeSteps) {
  const NetworkInput input{.channels = 12, .height = 1, .width = 1, .classes = 9, .time_steps = 29};
  const Network network = find_network("lstm_classifier");
  const ObservedLayer fc = observe_layer(network, input, "fc");
  const torch::NoGradGuard no_grad;
  const Instance instance = drawn(fc.network, input);
  const at::Tensor sequences = at::rand({1, 12, 17});
  EXPECT_TRUE(at::equal(instance.forward_part(sequences, 0, fc.layer_count), instance.forward(sequences)));
}

TEST(Observe, AWrongNameIsToldTheRightOnes) {
  try {
    observe_layer(find_network("lstm_classifier"),
                  {.channels = 12, .height = 1, .width = 1, .classes = 9, .time_steps = 29}, "lstn");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_option);
    EXPECT_EQ(error.message(), "network \"lstm_classifier\" has no layer \"lstn\"");
    EXPECT_EQ(error.hint(), "did you mean \"lstm\"? its layers are \"lstm\", \"fc\"");
  }
}

}  // namespace
}  // namespace lockstep::nn
