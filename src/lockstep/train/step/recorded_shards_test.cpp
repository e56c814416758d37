// Recorded shards with stand-ins for a GPU's recordings. Everything except the recording itself is the code
// that runs on a GPU.
#include "lockstep/train/step/recorded_shards.h"

#include <stdexcept>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/nn/layers.h"
#include "lockstep/train/step/shard_runner.h"

namespace lockstep::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr nn::NetworkInput kRecordedInput{1, 28, 28, 10};

// Counts its calls.
class Noted : public device::RepeatedWork {
 public:
  explicit Noted(std::vector<std::string>& calls, bool fails = false) : calls_(calls), fails_(fails) {}
  void rehearse(const Work& work) override {
    calls_.push_back("rehearse");
    RepeatedWork::rehearse(work);
  }
  void record(const Work& work) override {
    calls_.push_back("record");
    if (fails_) throw std::runtime_error("operation not permitted when stream is capturing");
    RepeatedWork::record(work);
  }
  void replay() override {
    calls_.push_back("replay");
    RepeatedWork::replay();
  }

 private:
  std::vector<std::string>& calls_;
  bool fails_;
};

struct Trained {
  explicit Trained(const std::string& network, ShardRunnerOptions options = {})
      : instance(seeded_instance(nn::find_network(network), kRecordedInput, 1)),
        weights(instance, at::kFloat, at::kCPU),
        norms(probe_batch_norms(instance, kRecordedInput)),
        runner(instance, weights, norms, options) {}

  nn::Instance instance;
  SharedWeights weights;
  std::vector<BatchNormInfo> norms;
  ShardRunner runner;
};

data::Shard shard_of(int64_t samples) {
  data::Shard shard{.index = 0,
                    .images = at::randint(256, {samples, 1, 28, 28}, at::kByte),
                    .target = at::randint(10, {samples}, at::kLong),
                    .count = samples};
  shard.target[0] = -1;  // one without a label
  return shard;
}

// Both train the same shards, with validations in between, while the weights change.
void expect_equal_training(Trained& usual, Trained& recorded, const std::vector<int64_t>& sizes) {
  for (size_t step = 0; step < sizes.size(); ++step) {
    const data::Shard shard = shard_of(sizes[step]);
    std::vector<std::vector<ShardResult>> results;
    for (Trained* one : {&usual, &recorded}) {
      if (step % 3 == 2) {
        one->runner.begin_evaluation();
        one->runner.evaluate(shard);
      }
      results.push_back({one->runner.train(shard, sizes[step] + 7, static_cast<int64_t>(step))});
    }
    const std::vector<at::Tensor> expected = usual.runner.gradients(), ours = recorded.runner.gradients();
    ASSERT_EQ(ours.size(), expected.size());
    for (size_t p = 0; p < ours.size(); ++p) {
      EXPECT_TRUE(at::equal(ours[p], expected[p])) << "step " << step << " " << usual.weights.slots()[p].name;
    }
    for (Trained* one : {&usual, &recorded}) {
      const at::NoGradGuard no_grad;
      at::Tensor(one->weights.flat()).mul_(0.99);
    }
    for (std::vector<ShardResult>& result : results)
      reduce_results(result, 1, /*pieces=*/1, usual.norms, *comm::make_communicator());
    EXPECT_EQ(results[1][0].loss, results[0][0].loss);
    EXPECT_EQ(results[1][0].correct, results[0][0].correct);
    EXPECT_EQ(results[1][0].targets, sizes[step] - 1);
    ASSERT_EQ(results[1][0].moments.size(), results[0][0].moments.size());
    for (size_t m = 0; m < results[0][0].moments.size(); ++m)
      EXPECT_EQ(results[1][0].moments[m].mean, results[0][0].moments[m].mean);
  }
}

TEST(RecordedShards, GiveWhatTheUsualWayGives) {
  at::set_num_threads(1);
  for (const char* name : {"lenet", "digits_cnn"}) {
    for (const Precision precision : {Precision::single, Precision::bf16_mixed}) {
      std::vector<std::string> calls;
      ShardRunnerOptions options{.format = {.mean = {0.4}, .deviation = {0.3}}, .precision = precision};
      Trained usual(name, options);
      options.recording.make_graph = [&] { return std::make_unique<Noted>(calls); };
      Trained recorded(name, options);
      expect_equal_training(usual, recorded, {8, 8, 8, 8, 8, 5});
      EXPECT_THAT(calls,
                  ElementsAre("rehearse", "rehearse", "rehearse", "record", "replay", "replay", "rehearse"))
          << name;
    }
  }
}

TEST(RecordedShards, TakeTheLossScaleAndLeaveSplitShardsToTheUsualWay) {
  at::set_num_threads(1);
  std::vector<std::string> calls;
  Trained usual("lenet"),
      recorded("lenet", {.recording = {.make_graph = [&] { return std::make_unique<Noted>(calls); }}});
  for (Trained* one : {&usual, &recorded}) one->runner.set_loss_scale(1024);
  expect_equal_training(usual, recorded, {8, 8, 8, 8, 8});
  calls.clear();
  const data::Shard shard = shard_of(8);
  for (Trained* one : {&usual, &recorded}) {
    one->runner.set_pieces(2);
    one->runner.train(shard, 8, 5);
  }
  const std::vector<at::Tensor> expected = usual.runner.gradients(), ours = recorded.runner.gradients();
  for (size_t p = 0; p < ours.size(); ++p) EXPECT_TRUE(at::equal(ours[p], expected[p]));
  EXPECT_THAT(calls, testing::IsEmpty());
}

TEST(RecordedShards, AThirdSizeGoesTheUsualWay) {
  at::set_num_threads(1);
  std::vector<std::string> calls;
  Trained usual("lenet"),
      recorded("lenet", {.recording = {.make_graph = [&] { return std::make_unique<Noted>(calls); }}});
  expect_equal_training(usual, recorded, {8, 5, 3, 3, 3, 3, 3});
  EXPECT_THAT(calls, ElementsAre("rehearse", "rehearse"));
}

TEST(RecordedShards, ARecordingThatFailsIsSaidOnceAndCostsNoResult) {
  at::set_num_threads(1);
  std::vector<std::string> calls, said;
  Trained usual("digits_cnn");
  Trained recorded(
      "digits_cnn",
      {.recording = {.make_graph = [&] { return std::make_unique<Noted>(calls, /*fails=*/true); },
                     .warn = [&](const std::string& text) { said.push_back(text); }}});
  expect_equal_training(usual, recorded, {8, 8, 8, 8, 8, 5});
  EXPECT_THAT(calls, ElementsAre("rehearse", "rehearse", "rehearse", "record"));
  EXPECT_THAT(said, ElementsAre(testing::AllOf(HasSubstr("shards of 8 samples"),
                                               HasSubstr("not permitted when stream is capturing"))));
}

TEST(RecordedShards, WhatCannotBeRecordedIsNamed) {
  Plan plan;
  plan.machine.device = "cuda";
  const std::vector<nn::InstanceLayer> layers{{.name = "conv"}, {.name = "relu"}};
  EXPECT_EQ(recording_obstacle(plan, layers, 1), "");
  EXPECT_THAT(recording_obstacle(plan, {{.name = "conv"}, {.name = "drop", .random = true}}, 1),
              HasSubstr("layer \"drop\" draws random numbers"));
  EXPECT_THAT(recording_obstacle(plan, {}, 1), HasSubstr("your own module"));
  plan.machine.workers = 2;
  EXPECT_THAT(recording_obstacle(plan, layers, 1), HasSubstr("several workers share a GPU"));
  EXPECT_EQ(recording_obstacle(plan, layers, 2), "");
  Plan changed = plan;
  changed.step.accumulate = 2;
  EXPECT_THAT(recording_obstacle(changed, layers, 2), HasSubstr("--accumulate"));
  changed = plan;
  changed.data.augment = data::Augment::parse("flip,mixup");
  EXPECT_THAT(recording_obstacle(changed, layers, 2), HasSubstr("mixup"));
  changed = plan;
  changed.exchange.kind = ExchangeKind::average;
  EXPECT_THAT(recording_obstacle(changed, layers, 2), HasSubstr("replicas"));
  plan.data.format.kind = data::SampleKind::sequence;
  EXPECT_THAT(recording_obstacle(plan, layers, 2), HasSubstr("sequences"));
  plan.machine.device = "cpu";
  EXPECT_THAT(recording_obstacle(plan, layers, 2), HasSubstr("no GPU"));
}

}  // namespace
}  // namespace lockstep::train
