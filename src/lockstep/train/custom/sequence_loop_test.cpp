// Custom loops over sequences: whole and in pieces, with a class for each sequence or for each time step.
#include <cmath>

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "lockstep/data/sequences.h"
#include "lockstep/data/survey.h"
#include "lockstep/nn/layers.h"
#include "lockstep/train/custom/learnables.h"
#include "lockstep/train/custom/test_loops.h"
#include "lockstep/train/custom/validate.h"

namespace lockstep::train {
namespace {

using namespace test;

// Noise around a number for each class, [2,T], with `steps` time steps, or 3 to 8. If each time step has a
// class, it is whether the first channel is above zero; the last step has none.
data::Dataset waves(int64_t count, int64_t steps = 0, bool of_steps = false) {
  std::vector<data::Sequence> sequences;
  uint32_t state = 1;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t own = steps > 0 ? steps : 3 + i / 2 % 6;
    data::Sequence sequence{.label = of_steps ? -1 : i % 2};
    for (int64_t value = 0; value < 2 * own; ++value) {
      state = state * 1664525U + 1013904223U;
      sequence.values.push_back(static_cast<float>(state >> 8) / (1 << 23) - 1 +
                                (of_steps     ? 0.0f
                                 : i % 2 == 0 ? -0.7f
                                              : 0.7f));
    }
    for (int64_t step = 0; of_steps && step < own; ++step)
      sequence.time_step_labels.push_back(step + 1 == own ? -1
                                                          : sequence.values[static_cast<size_t>(step)] > 0);
    sequences.push_back(std::move(sequence));
  }
  return data::make_sequences(2, {"low", "high"}, std::move(sequences));
}

nn::Network small_lstm(const std::string& output = "last") {
  return nn::read_network(Json::parse(R"([{"name":"lstm","type":"lstm","hidden":8,"output":")" + output +
                                      R"("},{"name":"fc","type":"linear","features":"classes"}])"),
                          "small_lstm");
}

TEST(CustomLoop, SequencesGiveTheSameBitsOnAnyNumberOfWorkers) {
  const auto run = [](pool::Worker& worker) {
    const BuiltModel model = build(worker, small_lstm(), waves(90), {.seed = 3});
    Adam adam(model.parameters(), {.learning_rate = 0.02});
    double loss = 0;
    for (const auto& batch :
         data::MiniBatchQueue(waves(90), worker.share(),
                              {.mini_batch_size = 20, .shards = 5, .order = {.seed = 7}, .epochs = 20})) {
      const auto sums = exchange(worker, loss_and_gradients(model, batch, [&](const data::Shard& shard) {
                                   return nn::cross_entropy_sum(model.forward(shard), shard.target);
                                 }));
      adam.step(sums.gradients);
      loss = sums.loss;
    }
    return Outcome{model.hash(), loss,
                   accuracy(model, waves(41), worker.comm(), {.mini_batch_size = 16, .shards = 3})};
  };
  const Outcome expected = on_workers(1, run);
  EXPECT_GT(expected.accuracy, 0.8);
  for (const int64_t workers : {2, 3}) EXPECT_EQ(on_workers(workers, run), expected) << workers << " workers";
}

// The loss is the mean over the time steps that have a class, for whole sequences and for pieces.
TEST(CustomLoop, PiecesWithAClassForEachTimeStepCarryTheirStateOn) {
  const auto run = [](pool::Worker& worker) {
    const data::Dataset pieces = data::stream_pieces(waves(20, 6, true), {.time_steps = 2, .slots = 10});
    const BuiltModel model = build(worker, small_lstm("sequence"), pieces, {.seed = 3});
    Adam adam(model.parameters(), {.learning_rate = 0.02});
    StreamStates states;
    std::vector<double> losses;
    for (const auto& batch : data::MiniBatchQueue(pieces, worker.share(),
                                                  {.mini_batch_size = 10,
                                                  .shards = 5,
                                                  .order = {.shuffle = data::Shuffle::never},
                                                  .epochs = 25})) {
      const auto sums = exchange(worker, loss_and_gradients(model, batch, [&](const data::Shard& shard) {
                                   return nn::cross_entropy_sum(model.forward(shard, &states), shard.target);
                                 }));
      adam.step(sums.gradients);
      losses.push_back(sums.loss);
    }
    EXPECT_NEAR(losses.front(), std::log(2), 0.3);
    const Validation validation =
        validate(model, pieces, worker.comm(), {.mini_batch_size = 10, .shards = 5});
    EXPECT_LT(validation.loss, losses.front());
    return Outcome{model.hash(), validation.loss, validation.accuracy};
  };
  const Outcome expected = on_workers(1, run);
  EXPECT_GT(expected.accuracy, 0.7);
  EXPECT_EQ(on_workers(2, run), expected);
}

TEST(BuiltModel, LabelledSequencesArePermutedAndChecked) {
  on_workers(1, [](pool::Worker& worker) {
    const BuiltModel model =
        build(worker, small_lstm(),
              nn::NetworkInput{.channels = 2, .height = 1, .width = 1, .classes = 3, .time_steps = 7});
    const at::Tensor sequences = at::rand({5, 2, 9});
    EXPECT_TRUE(at::allclose(model.forward(sequences.permute({1, 0, 2}), "CBT"), model.predict(sequences)));
    EXPECT_THROW(model.forward(sequences, "CBT"), Error);  // five channels
    EXPECT_THROW(model.forward(sequences.unsqueeze(3), "BCSS"), Error);
    EXPECT_THROW(
        model.predict(data::Shard{.count = 2, .input = sequences, .lengths = at::full({2}, 9, at::kLong)}),
        Error);
    const BuiltModel images = build(worker, net(), {1, 6, 8, 2});
    EXPECT_THROW(
        images.predict(data::Shard{.count = 5, .input = sequences, .lengths = at::full({5}, 9, at::kLong)}),
        Error);
    EXPECT_THROW(validate(model, halves(20), worker.comm()), Error);
    return 0;
  });
}

TEST(BuiltModel, PaddingOnEitherSideChangesNothingAndPiecesGoOnWhereTheLastEnded) {
  on_workers(1, [](pool::Worker& worker) {
    const BuiltModel model = build(worker, small_lstm(), waves(4));
    const auto last_logits = [&](const data::Dataset& dataset, data::PaddingSide padding,
                                 StreamStates* states) {
      data::ImageFormat format = data::format_of(dataset);
      format.padding = padding;
      at::Tensor logits;
      for (const auto& batch : data::MiniBatchQueue(dataset, {},
                                                    {.mini_batch_size = 4,
                                                    .shards = 1,
                                                    .order = {.shuffle = data::Shuffle::never},
                                                    .images = format})) {
        logits = model.predict(batch.shards.front(), states);
      }
      return logits;
    };
    using data::PaddingSide;
    const auto close = [](const at::Tensor& a, const at::Tensor& b) {
      return at::allclose(a, b, 1e-4, 1e-6);
    };
    EXPECT_TRUE(close(last_logits(waves(4), PaddingSide::right, nullptr),
                      last_logits(waves(4), PaddingSide::left, nullptr)));
    const at::Tensor whole = last_logits(waves(4, 6), PaddingSide::right, nullptr);
    const data::Dataset pieces = data::stream_pieces(waves(4, 6), {.time_steps = 2, .slots = 4});
    StreamStates states;
    EXPECT_TRUE(close(last_logits(pieces, PaddingSide::right, &states), whole));
    EXPECT_FALSE(close(last_logits(pieces, PaddingSide::right, nullptr), whole));
    StreamStates none;
    EXPECT_THROW(last_logits(pieces.subset({4, 5, 6, 7}), PaddingSide::right, &none), Error);
    return 0;
  });
}

}  // namespace
}  // namespace lockstep::train
