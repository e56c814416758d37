// Recorded shards with stand-ins for a GPU's recordings. Everything except the recording itself is the code
// that runs on a GPU.
#include "lockstep/train/step/recorded_shards.h"

#include <stdexcept>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/nn/layers.h"
#include "lockstep/train/step/shard_parts.h"
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
    EXPECT_EQ(results[1][0].moments.values, results[0][0].moments.values);
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

TEST(RecordedShards, AFifthSizeGoesTheUsualWay) {
  at::set_num_threads(1);
  std::vector<std::string> calls;
  Trained usual("lenet"),
      recorded("lenet", {.recording = {.make_graph = [&] { return std::make_unique<Noted>(calls); }}});
  expect_equal_training(usual, recorded, {8, 5, 3, 6, 4, 4, 4, 4, 4});
  EXPECT_THAT(calls, ElementsAre("rehearse", "rehearse", "rehearse", "rehearse"));
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
  EXPECT_THAT(said, ElementsAre(testing::AllOf(HasSubstr("1 shard of 8 samples"),
                                               HasSubstr("not permitted when stream is capturing"))));
}

// Shards of a node, joined and apart, as the queue gives them.
TEST(RecordedShards, SeveralSideBySideGiveTheSumOfTheTree) {
  at::set_num_threads(1);
  constexpr int64_t kShards = 4, kSamples = 8;
  for (const char* name : {"lenet", "digits_cnn", "squeezenet"}) {
    std::vector<std::string> calls;
    Trained usual(name),
        recorded(name, {.recording = {.make_graph = [&] { return std::make_unique<Noted>(calls); },
                                      .side_by_side = true}});
    EXPECT_EQ(usual.runner.most_together(kSamples), 1);
    EXPECT_EQ(recorded.runner.most_together(kSamples), 8);
    for (int64_t step = 0; step < 5; ++step) {
      const data::Shard all = shard_of(kShards * kSamples);
      std::vector<ShardResult> expected;
      std::vector<at::Tensor> sums;
      for (int64_t i = 0; i < kShards; ++i) {
        const Range part{i * kSamples, (i + 1) * kSamples};
        data::Shard shard = part_of_shard(all, part);
        shard.index = i;
        expected.push_back(usual.runner.train(shard, all.count, step));
        sums.push_back(at::zeros_like(usual.weights.flat()));
        usual.weights.put(usual.runner.gradients(), sums.back(), /*add=*/false);
      }
      std::vector<ShardResult> results = recorded.runner.train_together({all, kShards}, all.count, step);
      const at::Tensor flat = at::zeros_like(recorded.weights.flat());
      recorded.weights.put(recorded.runner.gradients(), flat, /*add=*/false);
      EXPECT_TRUE(at::equal(flat, (sums[0] + sums[1]) + (sums[2] + sums[3]))) << name << " step " << step;
      for (std::vector<ShardResult>* each : {&expected, &results})
        reduce_results(*each, kShards, /*pieces=*/1, usual.norms, *comm::make_communicator());
      for (size_t i = 0; i < results.size(); ++i) {
        EXPECT_EQ(results[i].loss, expected[i].loss);
        EXPECT_EQ(results[i].targets, expected[i].targets);
        EXPECT_EQ(results[i].moments.values, expected[i].moments.values);
      }
    }
    EXPECT_THAT(calls, ElementsAre("rehearse", "rehearse", "rehearse", "record", "replay", "replay"));
  }
}

TEST(RecordedShards, SeveralWhoseRecordingFailsAreComputedOneByOne) {
  at::set_num_threads(1);
  std::vector<std::string> calls;
  const auto broken = [&] { return std::make_unique<Noted>(calls, /*fails=*/true); };
  Trained usual("digits_cnn", {.recording = {.make_graph = [&] { return std::make_unique<Noted>(calls); }}}),
      failing("digits_cnn", {.recording = {.make_graph = broken}});
  for (int64_t step = 0; step < 5; ++step) {
    const data::Shard all = shard_of(16);
    for (Trained* one : {&usual, &failing}) one->runner.train_together({all, 2}, 16, step);
    const std::vector<at::Tensor> expected = usual.runner.gradients(), ours = failing.runner.gradients();
    for (size_t p = 0; p < ours.size(); ++p) EXPECT_TRUE(at::equal(ours[p], expected[p])) << step;
  }
}

TEST(RecordedShards, RandomLayersDrawTheSameNumbers) {
  at::set_num_threads(1);
  std::vector<std::string> calls;
  Trained usual("squeezenet");
  Trained recorded("squeezenet",
                   {.recording = {.make_graph = [&] { return std::make_unique<Noted>(calls); }}});
  expect_equal_training(usual, recorded, {4, 4, 4, 4, 4});
  EXPECT_THAT(calls, testing::Contains("replay"));
}

TEST(RecordedShards, FewerGoSideBySideWithLittleMemory) {
  std::vector<std::string> calls;
  const auto most_with = [&](int64_t free_bytes) {
    Trained recorded("lenet", {.recording = {.make_graph = [&] { return std::make_unique<Noted>(calls); },
                                             .side_by_side = true,
                                             .free_bytes = [=] { return free_bytes; }}});
    return recorded.runner.most_together(16);
  };
  EXPECT_EQ(most_with(int64_t{80} << 30), 8);
  EXPECT_EQ(most_with(1000), 1);
  EXPECT_GT(most_with(1 << 30), 1);
  EXPECT_LT(most_with(1 << 30), 8);
}

std::string obstacle(const Plan& plan, const std::vector<nn::InstanceLayer>& layers, int64_t ranks) {
  const RecordingChoice choice = choose_recording(plan, Recording::auto_, layers, ranks);
  if (choice.use) return "";
  EXPECT_THROW(choose_recording(plan, Recording::on, layers, ranks), Error);
  return choice.reason;
}

TEST(RecordedShards, WhatCannotBeRecordedIsNamed) {
  Plan plan;
  plan.machine.device = "cuda";
  const std::vector<nn::InstanceLayer> layers{{.name = "conv"}, {.name = "relu"}};
  EXPECT_EQ(obstacle(plan, layers, 1), "");
  EXPECT_FALSE(choose_recording(plan, Recording::auto_, layers, 1).side_by_side);
  EXPECT_TRUE(choose_recording(plan, Recording::side_by_side, layers, 1).side_by_side);
  const nn::InstanceLayer by_sample{.name = "drop", .random = true, .keeps_shards_apart = true},
      by_shard{.name = "noise", .random = true};
  EXPECT_TRUE(choose_recording(plan, Recording::side_by_side, {by_sample}, 1).side_by_side);
  EXPECT_TRUE(choose_recording(plan, Recording::auto_, {by_shard}, 1).use);
  EXPECT_THROW(choose_recording(plan, Recording::side_by_side, {by_shard}, 1), Error);
  EXPECT_EQ(choose_recording(plan, Recording::off, layers, 1).reason, "--cuda-graphs off");
  EXPECT_THAT(obstacle(plan, {}, 1), HasSubstr("your own module"));
  plan.machine.workers = 2;
  EXPECT_THAT(obstacle(plan, layers, 1), HasSubstr("several workers share a GPU"));
  EXPECT_EQ(obstacle(plan, layers, 2), "");
  Plan changed = plan;
  changed.step.accumulate = 2;
  EXPECT_THAT(obstacle(changed, layers, 2), HasSubstr("--accumulate"));
  changed = plan;
  changed.data.augment = data::Augment::parse("flip,mixup");
  EXPECT_THAT(obstacle(changed, layers, 2), HasSubstr("mixup"));
  changed = plan;
  changed.exchange.kind = ExchangeKind::average;
  EXPECT_THAT(obstacle(changed, layers, 2), HasSubstr("replicas"));
  plan.data.format.kind = data::SampleKind::sequence;
  EXPECT_THAT(obstacle(plan, layers, 2), HasSubstr("sequences"));
  plan.machine.device = "cpu";
  for (const Recording asked : {Recording::auto_, Recording::on, Recording::off}) {
    EXPECT_FALSE(choose_recording(plan, asked, layers, 2).use);
    EXPECT_EQ(choose_recording(plan, asked, layers, 2).reason, "");
  }
}

}  // namespace
}  // namespace lockstep::train
