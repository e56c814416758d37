// Recurrent layers against LibTorch's modules, over padding, depth and pieces of streams.
#include "lockstep/nn/recurrence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/rnn.h>
#include <torch/utils.h>

#include "lockstep/nn/internal/testing.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/state.h"

namespace lockstep::nn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kChannels = 5, kHidden = 7, kRows = 4, kSteps = 9;

NetworkInput sequences_of(int64_t steps, bool labels_time_steps) {
  return {.channels = kChannels,
          .height = 1,
          .width = 1,
          .classes = 3,
          .time_steps = steps,
          .labels_time_steps = labels_time_steps};
}

Instance make_network(const std::string& type, const std::string& output, int64_t layers = 1) {
  torch::manual_seed(3);
  const std::string json = R"([{"name":"rnn","type":")" + type + R"(","hidden":7,"layers":)" +
                           std::to_string(layers) + R"(,"output":")" + output +
                           R"("},{"name":"fc","type":"linear","features":"classes"}])";
  return read_network(Json::parse(json), "net").make(sequences_of(kSteps, output == "sequence"));
}

at::Tensor lengths_of(const std::vector<int64_t>& lengths) { return torch::tensor(lengths, torch::kLong); }

/// LibTorch's own outputs [1,T,H] for one sequence [C,T] with the network's weights.
at::Tensor engine_outputs(const Instance& network, const std::string& type, int64_t layers,
                          const at::Tensor& sequence) {
  const at::Tensor input = sequence.t().unsqueeze(0).contiguous();
  const auto with_weights = [&](auto module) {
    const auto own = network.module->parameters();
    const auto target = module->parameters();
    for (size_t i = 0; i < target.size(); ++i) target[i].set_data(own[i].detach());
    return std::get<0>(module->forward(input));
  };
  if (type == "lstm")
    return with_weights(
        torch::nn::LSTM(torch::nn::LSTMOptions(kChannels, kHidden).num_layers(layers).batch_first(true)));
  return with_weights(
      torch::nn::GRU(torch::nn::GRUOptions(kChannels, kHidden).num_layers(layers).batch_first(true)));
}

at::Tensor engine_logits(const Instance& network, const at::Tensor& outputs) {
  const auto parameters = network.module->named_parameters();
  return torch::linear(outputs, parameters["fc.weight"], parameters["fc.bias"]);
}

TEST(Recurrent, IsLibTorchsForEachSequenceOfAPaddedMiniBatch) {
  const std::vector<int64_t> lengths{9, 3, 1, 7};
  for (const std::string type : {"lstm", "gru"}) {
    for (const int64_t layers : {1, 2}) {
      for (const bool left : {false, true}) {
        const Instance last = make_network(type, "last", layers),
                       every = make_network(type, "sequence", layers);
        const at::Tensor values = torch::randn({kRows, kChannels, kSteps});
        const Sequences batch{.values = values, .lengths = lengths_of(lengths), .padded_left = left};
        const at::Tensor logits = last.forward_sequences(batch).logits,
                         all = every.forward_sequences(batch).logits;
        for (int64_t row = 0; row < kRows; ++row) {
          const int64_t length = lengths[static_cast<size_t>(row)], begin = left ? kSteps - length : 0;
          const at::Tensor expected = engine_logits(
              last, engine_outputs(last, type, layers, values[row].narrow(1, begin, length)))[0];
          EXPECT_TRUE(torch::allclose(logits[row], expected[length - 1], 1e-5, 1e-6))
              << type << layers << left << row;
          EXPECT_TRUE(torch::allclose(all[row].narrow(1, begin, length).t(), expected, 1e-5, 1e-6))
              << type << layers << left << row;
        }
      }
    }
  }
}

TEST(Recurrent, GradientsAreLibTorchs) {
  const std::vector<int64_t> lengths{9, 3, 1, 7};
  for (const std::string type : {"lstm", "gru"}) {
    const Instance network = make_network(type, "last", 2);
    convert_floating(*network.module, torch::kDouble);
    const at::Tensor values = torch::randn({kRows, kChannels, kSteps}, torch::kDouble).requires_grad_();
    const at::Tensor weights = torch::randn({kRows, 3}, torch::kDouble);
    const auto parameters = network.module->parameters();
    (network.forward_sequences({.values = values, .lengths = lengths_of(lengths)}).logits * weights)
        .sum()
        .backward();
    std::vector<at::Tensor> found{values.grad().clone()};
    for (const at::Tensor& parameter : parameters) found.push_back(parameter.grad().clone());

    values.mutable_grad().zero_();
    for (const at::Tensor& parameter : parameters) parameter.grad().zero_();
    auto loss = torch::zeros({}, torch::kDouble);
    const auto own = network.module->parameters();
    const bool lstm = type == "lstm";
    for (int64_t row = 0; row < kRows; ++row) {
      const int64_t length = lengths[static_cast<size_t>(row)];
      const at::Tensor input = values[row].narrow(1, 0, length).t().unsqueeze(1);
      const std::vector<at::Tensor> flat(own.begin(), own.begin() + 8);
      const at::Tensor zero = torch::zeros({2, 1, kHidden}, torch::kDouble);
      const at::Tensor outputs =
          lstm ? std::get<0>(at::lstm(input, {zero, zero}, flat, true, 2, 0.0, true, false, false))
               : std::get<0>(at::gru(input, zero, flat, true, 2, 0.0, true, false, false));
      loss = loss + (engine_logits(network, outputs[length - 1]) * weights[row]).sum();
    }
    loss.backward();
    EXPECT_TRUE(torch::allclose(found[0], values.grad(), 1e-9, 1e-11)) << type;
    for (size_t i = 0; i < parameters.size(); ++i)
      EXPECT_TRUE(torch::allclose(found[i + 1], parameters[i].grad(), 1e-9, 1e-11)) << type << i;
  }
}

TEST(Recurrent, GradientsOfEveryStepAreLibTorchs) {
  for (const std::string type : {"lstm", "gru"}) {
    const Instance network = make_network(type, "sequence");
    convert_floating(*network.module, torch::kDouble);
    const at::Tensor values = torch::randn({kRows, kChannels, kSteps}, torch::kDouble).requires_grad_();
    const at::Tensor weights = torch::randn({kRows, 3, kSteps}, torch::kDouble);
    (network.forward(values) * weights).sum().backward();
    const at::Tensor found = values.grad().clone();
    values.mutable_grad().zero_();
    const auto own = network.module->parameters();
    const std::vector<at::Tensor> flat(own.begin(), own.begin() + 4);
    const at::Tensor zero = torch::zeros({1, kRows, kHidden}, torch::kDouble),
                     input = values.permute({2, 0, 1});
    const at::Tensor outputs =
        type == "lstm" ? std::get<0>(at::lstm(input, {zero, zero}, flat, true, 1, 0.0, true, false, false))
                       : std::get<0>(at::gru(input, zero, flat, true, 1, 0.0, true, false, false));
    (engine_logits(network, outputs).permute({1, 2, 0}) * weights).sum().backward();
    EXPECT_TRUE(torch::allclose(found, values.grad(), 1e-9, 1e-11)) << type;
  }
}

// One long stream a row, cut into unequal pieces with state carried over, against the whole: equal in every
// bit.
TEST(Recurrent, PiecesWithCarriedStateGiveTheBitsOfTheWhole) {
  constexpr int64_t kLong = 1000;
  for (const std::string type : {"lstm", "gru"}) {
    const Instance network = make_network(type, "sequence", 2);
    for (const int64_t rows : {1, 3, 16}) {
      const torch::NoGradGuard no_grad;
      const at::Tensor stream = torch::randn({rows, kChannels, kLong});
      const SequenceOutput whole = network.forward_sequences(whole_sequences(stream));
      std::vector<at::Tensor> logits, hidden_state;
      for (int64_t begin = 0, piece = 1; begin < kLong;
           begin += piece, piece = std::min(2 * piece + 1, kLong - begin)) {
        Sequences sequences = whole_sequences(stream.narrow(2, begin, piece));
        sequences.hidden_state = hidden_state;
        const SequenceOutput output = network.forward_sequences(sequences);
        logits.push_back(output.logits);
        hidden_state = output.hidden_state;
      }
      EXPECT_TRUE(torch::equal(torch::cat(logits, 2), whole.logits)) << type << rows;
      for (size_t i = 0; i < hidden_state.size(); ++i)
        EXPECT_TRUE(torch::equal(hidden_state[i], whole.hidden_state[i])) << type << rows;
    }
  }
}

TEST(Recurrent, PaddedStepsChangeNothing) {
  const Instance network = make_network("lstm", "last");
  const at::Tensor values = torch::randn({kRows, kChannels, kSteps});
  const at::Tensor lengths = lengths_of({4, 2, 0, 4});
  at::Tensor other = values.clone();
  for (int64_t row = 0; row < kRows; ++row)
    other[row].narrow(1, lengths[row].item<int64_t>(), kSteps - lengths[row].item<int64_t>()).fill_(1e3);
  const SequenceOutput first = network.forward_sequences({.values = values, .lengths = lengths}),
                       second = network.forward_sequences({.values = other, .lengths = lengths});
  EXPECT_TRUE(torch::equal(first.logits, second.logits));
  EXPECT_TRUE(torch::equal(first.hidden_state[0][2], torch::zeros({1, kHidden})))
      << "a sequence of no time steps keeps its state";
}

TEST(Recurrent, TensorsHavePyTorchsNamesAndShapes) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : state_of(*make_network("gru", "last", 2).module)) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("rnn.weight_ih_l0", "rnn.weight_hh_l0", "rnn.bias_ih_l0", "rnn.bias_hh_l0",
                                 "rnn.weight_ih_l1", "rnn.weight_hh_l1", "rnn.bias_ih_l1", "rnn.bias_hh_l1",
                                 "fc.weight", "fc.bias"));
  const Network network = find_network("lstm_classifier");
  const NetworkInput input{.channels = 12, .height = 1, .width = 1, .classes = 9, .time_steps = 29};
  EXPECT_EQ(inspect_network(network, input).learnable_count(), 400 * 12 + 400 * 100 + 800 + 909);
  int64_t count = 0;
  for (const auto& parameter : network.make(input).module->parameters()) count += parameter.numel();
  EXPECT_EQ(count, inspect_network(network, input).learnable_count()) << "the table counts what is built";
}

TEST(Recurrent, WhatDoesNotFitIsSaid) {
  const NetworkInput input = sequences_of(kSteps, false);
  EXPECT_THAT(
      complaint(R"([{"type":"lstm","hidden":4}])"),
      HasSubstr(R"(layer "0" (lstm) needs sequences [channels,time steps], but "input" returns [1,28,28])"));
  EXPECT_THAT(complaint(R"([{"type":"gru"}])", input), HasSubstr(R"(needs "hidden")"));
  EXPECT_THAT(complaint(R"([{"type":"lstm","hidden":4},{"type":"lstm","hidden":4}])", input),
              HasSubstr(R"(set "output": "sequence" in the lstm or gru layer before it)"));
  EXPECT_THAT(
      complaint(R"([{"type":"lstm","hidden":4,"output":"sequence"},{"type":"linear","features":"classes"}])",
                input),
      HasSubstr(R"(set "output": "last")"));
  EXPECT_THAT(complaint(R"([{"type":"lstm","hidden":4},{"type":"linear","features":"classes"}])",
                        sequences_of(kSteps, true)),
              HasSubstr(R"(set "output": "sequence")"));
  EXPECT_THAT(complaint(R"([{"type":"flatten"}])", input),
              HasSubstr("does not accept sequences: their lengths differ"));
  EXPECT_THAT(complaint(R"([{"type":"batch_norm"}])", input),
              HasSubstr("does not accept sequences: padding would change its statistics"));
  EXPECT_THAT(complaint(R"([{"type":"lstm","hidden":4,"output":"all"}])", input), HasSubstr("output"));
}

}  // namespace
}  // namespace lockstep::nn
