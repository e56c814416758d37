// Convolution, pooling and normalization over time and both directions of an LSTM, against LibTorch's modules
// on each sequence without its padding.
#include "lockstep/nn/layers/over_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/rnn.h>
#include <torch/utils.h>

#include "lockstep/nn/internal/testing.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/state.h"

namespace lockstep::nn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kSeries = 4, kVariables = 5, kLongest = 9;
const std::vector<int64_t> kLengths{9, 3, 1, 7};
constexpr NetworkInput kSequences{
    .channels = kVariables, .height = 1, .width = 1, .classes = 3, .time_steps = kLongest};

/// A network whose logits are the output of `layers`.
Instance in_double(const std::string& layers, bool labels_time_steps = false) {
  torch::manual_seed(5);
  NetworkInput input = kSequences;
  input.labels_time_steps = labels_time_steps;
  Instance network = read_network(Json::parse("[" + layers + "]"), "net").make(input);
  convert_floating(*network.module, torch::kDouble);
  return network;
}

Sequences batch_of(const at::Tensor& values, bool left) {
  return {.values = values, .lengths = torch::tensor(kLengths, torch::kLong), .padded_left = left};
}

at::Tensor random_series() {
  torch::manual_seed(6);
  return torch::randn({kSeries, kVariables, kLongest}, torch::kDouble).requires_grad_();
}

/// Expects that logits and gradients are those of `alone`, which gets each sequence [1,C,T] without padding
/// and returns [1,classes] or [1,classes,T].
void expect_as_alone(const Instance& network, const std::function<at::Tensor(const at::Tensor&)>& alone) {
  for (const bool left : {false, true}) {
    const auto parameters = network.module->parameters();
    const at::Tensor values = random_series();
    const at::Tensor logits = network.forward_sequences(batch_of(values, left)).logits;
    std::vector<at::Tensor> inputs{values};
    inputs.insert(inputs.end(), parameters.begin(), parameters.end());
    at::Tensor found_loss = torch::zeros({}, torch::kDouble), loss = torch::zeros({}, torch::kDouble);
    for (int64_t row = 0; row < kSeries; ++row) {
      const int64_t length = kLengths[static_cast<size_t>(row)], begin = left ? kLongest - length : 0;
      const at::Tensor expected = alone(values.narrow(0, row, 1).narrow(2, begin, length));
      const at::Tensor found =
          logits.dim() == 3 ? logits.narrow(0, row, 1).narrow(2, begin, length) : logits.narrow(0, row, 1);
      EXPECT_TRUE(torch::allclose(found, expected, 1e-9, 1e-11)) << left << row;
      const at::Tensor weights = torch::arange(expected.numel(), torch::kDouble).view_as(expected).cos();
      found_loss = found_loss + (found * weights).sum();
      loss = loss + (expected * weights).sum();
    }
    const auto found = torch::autograd::grad({found_loss}, inputs),
               wanted = torch::autograd::grad({loss}, inputs);
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(torch::allclose(found[i], wanted[i], 1e-9, 1e-11)) << left << i;
  }
}

at::Tensor parameter(const Instance& network, const std::string& name) {
  return network.module->named_parameters()[name];
}

TEST(OverTime, Conv1dIsPyTorchsForEachSequenceOfAPaddedMiniBatch) {
  for (const int64_t kernel : {1, 3, 4}) {
    for (const bool causal : {false, true}) {
      const Instance network =
          in_double(R"({"name":"c","type":"conv1d","filters":3,"dilation":2,"kernel":)" +
                        std::to_string(kernel) + R"(,"padding":")" + (causal ? "causal" : "same") + R"("})",
                    true);
      expect_as_alone(network, [&](const at::Tensor& series) {
        const int64_t missing = 2 * (kernel - 1), before = causal ? missing : missing / 2;
        return torch::conv1d(at::constant_pad_nd(series, {before, missing - before}),
                             parameter(network, "c.weight"), parameter(network, "c.bias"), 1,
                             at::IntArrayRef{0}, 2);
      });
    }
  }
  const Instance network = in_double(R"({"name":"c","type":"conv1d","filters":3,"kernel":4})", true);
  expect_as_alone(network, [&](const at::Tensor& series) {
    return torch::conv1d(series, parameter(network, "c.weight"), parameter(network, "c.bias"), 1, "same");
  });
}

TEST(OverTime, PoolingIgnoresPadding) {
  const std::string fc = R"(,{"name":"fc","type":"linear","features":"classes"})";
  const Instance mean = in_double(R"({"type":"global_average_pool"})" + fc),
                 most = in_double(R"({"type":"global_max_pool"})" + fc);
  const auto logits = [](const Instance& network, const at::Tensor& features) {
    return torch::linear(features, parameter(network, "fc.weight"), parameter(network, "fc.bias"));
  };
  expect_as_alone(mean, [&](const at::Tensor& series) { return logits(mean, series.mean(2)); });
  expect_as_alone(most, [&](const at::Tensor& series) { return logits(most, series.amax(2)); });
  const at::Tensor lengths = torch::tensor({0, 2, 0, 2}, torch::kLong);
  for (const Instance* network : {&mean, &most}) {
    const at::Tensor empty =
        network->forward_sequences({.values = random_series(), .lengths = lengths}).logits[0];
    EXPECT_TRUE(torch::equal(empty, parameter(*network, "fc.bias"))) << "a sequence of no time steps";
  }
}

TEST(OverTime, LayerNormIsOverTheChannelsOfATimeStep) {
  const Instance network = in_double(
      R"({"name":"n","type":"layer_norm"},{"name":"c","type":"conv1d","filters":3,"kernel":1})", true);
  expect_as_alone(network, [&](const at::Tensor& series) {
    const at::Tensor normal = torch::layer_norm(series.transpose(1, 2), {kVariables},
                                                parameter(network, "n.weight"), parameter(network, "n.bias"));
    return torch::conv1d(normal.transpose(1, 2), parameter(network, "c.weight"),
                         parameter(network, "c.bias"));
  });
}

TEST(OverTime, LayerNormOfImagesAndFeaturesIsPyTorchs) {
  const Instance network = read_network(Json::parse(R"([{"name":"a","type":"layer_norm"},{"type":"flatten"},
      {"name":"b","type":"layer_norm","affine":false},{"name":"fc","type":"linear","features":"classes"}])"),
                                        "net")
                               .make({.channels = 2, .height = 4, .width = 3, .classes = 3});
  convert_floating(*network.module, torch::kDouble);
  for (const char* name : {"a.weight", "a.bias"}) {
    const torch::NoGradGuard no_grad;
    parameter(network, name).normal_();
  }
  const at::Tensor images = torch::randn({5, 2, 4, 3}, torch::kDouble);
  const at::Tensor first =
      torch::layer_norm(images, {2, 4, 3}, parameter(network, "a.weight"), parameter(network, "a.bias"));
  const at::Tensor expected = torch::linear(torch::layer_norm(first.flatten(1), {24}),
                                            parameter(network, "fc.weight"), parameter(network, "fc.bias"));
  EXPECT_TRUE(torch::allclose(network.forward(images), expected, 1e-9, 1e-11));
  EXPECT_TRUE(torch::allclose(network.forward(images.contiguous(at::MemoryFormat::ChannelsLast)), expected,
                              1e-9, 1e-11));
}

TEST(OverTime, BilstmIsPyTorchsForEachSequenceOfAPaddedMiniBatch) {
  for (const bool sequence : {true, false}) {
    const Instance network = in_double(R"({"name":"r","type":"bilstm","hidden":7,"layers":2,"output":")" +
                                           std::string(sequence ? "sequence" : "last") +
                                           R"("},{"name":"fc","type":"linear","features":"classes"})",
                                       sequence);
    const auto own = network.module->parameters();
    const std::vector<at::Tensor> weights(own.begin(), own.begin() + 16);
    expect_as_alone(network, [&](const at::Tensor& series) {
      const at::Tensor zeros = torch::zeros({4, 1, 7}, torch::kDouble);
      const auto [outputs, h, c] =
          at::lstm(series.permute({2, 0, 1}), {zeros, zeros}, weights, true, 2, 0.0, true, true, false);
      const at::Tensor features = sequence ? outputs : torch::cat({h[2], h[3]}, 1);
      const at::Tensor logits =
          torch::linear(features, parameter(network, "fc.weight"), parameter(network, "fc.bias"));
      return sequence ? logits.permute({1, 2, 0}) : logits;
    });
    EXPECT_TRUE(network.hidden_state.empty());
  }
}

TEST(OverTime, TensorsHavePyTorchsNames) {
  std::vector<std::string> names;
  const Instance network = in_double(
      R"({"name":"r","type":"bilstm","hidden":2},{"type":"linear","features":"classes","bias":false})");
  for (const auto& [name, tensor] : state_of(*network.module)) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("r.weight_ih_l0", "r.weight_hh_l0", "r.bias_ih_l0", "r.bias_hh_l0",
                                 "r.weight_ih_l0_reverse", "r.weight_hh_l0_reverse", "r.bias_ih_l0_reverse",
                                 "r.bias_hh_l0_reverse", "1.weight"));
  for (const char* json :
       {R"([{"type":"bilstm","hidden":6,"layers":2},{"type":"linear","features":"classes"}])",
        R"([{"type":"conv1d","filters":10,"kernel":3,"groups":5},{"type":"layer_norm"},
                               {"type":"global_max_pool"},{"type":"linear","features":"classes"}])"}) {
    const Network net = read_network(Json::parse(json), "net");
    int64_t count = 0;
    for (const auto& tensor : net.make(kSequences).module->parameters()) count += tensor.numel();
    EXPECT_EQ(count, inspect_network(net, kSequences).learnable_count()) << json;
  }
}

TEST(OverTime, WhatDoesNotFitIsSaid) {
  EXPECT_THAT(complaint(R"([{"type":"conv1d","filters":3,"kernel":3}])"),
              HasSubstr("needs sequences [channels,time steps]"));
  EXPECT_THAT(complaint(R"([{"type":"conv1d","filters":3}])", kSequences), HasSubstr(R"(needs "kernel")"));
  EXPECT_THAT(complaint(R"([{"type":"conv1d","kernel":3}])", kSequences), HasSubstr(R"(needs "filters")"));
  EXPECT_THAT(complaint(R"([{"type":"conv1d","filters":4,"kernel":3,"groups":2}])", kSequences),
              HasSubstr("2 groups, which must divide the 5 channels"));
  EXPECT_THAT(
      shapes_of(R"([{"type":"global_max_pool"},{"type":"flatten"},{"type":"linear","features":"classes"}])"),
      ElementsAre(ElementsAre(1, 1, 1), ElementsAre(1), ElementsAre(10)));
}

}  // namespace
}  // namespace lockstep::nn
