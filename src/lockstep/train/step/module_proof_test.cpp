#include "lockstep/train/step/module_proof.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

#include "lockstep/comm/communicator.h"
#include "lockstep/nn/module.h"
#include "lockstep/train/step/shard_runner.h"
#include "lockstep/train/step/test_shards.h"

namespace lockstep::train {
namespace {

const std::vector<int64_t> kProofImage{3, 14, 14};
constexpr int64_t kProofClasses = 5;

using testing::HasSubstr;

constexpr nn::NetworkInput kProofInput{.channels = 3, .height = 14, .width = 14, .classes = 5};

/// What a module does to its features [b,12,14,14].
using Between = std::function<at::Tensor(const at::Tensor&)>;

struct ProvenImpl : torch::nn::Module {
  ProvenImpl(const nn::NetworkInput& input, Between done, bool in_place)
      : between(std::move(done)), doubles_images(in_place) {
    first = register_module("first",
                            torch::nn::Conv2d(torch::nn::Conv2dOptions(input.channels, 12, 3).padding(1)));
    norm = register_module("norm", torch::nn::BatchNorm2d(12));
    pool = register_module("pool", torch::nn::MaxPool2d(2));
    second = register_module("second", torch::nn::Conv2d(torch::nn::Conv2dOptions(12, 12, 3).padding(1)));
    norm2 = register_module("norm2", torch::nn::BatchNorm2d(12));
    average = register_module("average", torch::nn::AdaptiveAvgPool2d(2));
    last = register_module("last", torch::nn::Linear(48, input.classes));
  }
  at::Tensor forward(const at::Tensor& images) {
    if (doubles_images) images.add_(images);
    const at::Tensor x = pool(between(torch::relu(norm(first(images)))));
    return last(average(torch::relu(norm2(second(x)) + x)).flatten(1));
  }
  Between between;
  bool doubles_images;  // in their own memory
  torch::nn::Conv2d first{nullptr}, second{nullptr};
  torch::nn::BatchNorm2d norm{nullptr}, norm2{nullptr};
  torch::nn::MaxPool2d pool{nullptr};
  torch::nn::AdaptiveAvgPool2d average{nullptr};
  torch::nn::Linear last{nullptr};
};
TORCH_MODULE(Proven);

class ProvenModule {
 public:
  explicit ProvenModule(const Between& between, ShardRunnerOptions options = {.module_together = true},
                        bool doubles_images = false)
      : instance_(seeded_instance(nn::network("proven",
                                              [=](const nn::NetworkInput& input) {
                                                return Proven(input, between, doubles_images);
                                              }),
                                  kProofInput, 1)),
        weights_(instance_, at::kFloat, at::kCPU),
        norms_(probe_batch_norms(instance_, kProofInput)),
        runner(instance_, weights_, norms_, options) {}

  std::vector<ShardResult> reduced(std::vector<ShardResult> results) const {
    reduce_results(results, static_cast<int64_t>(results.size()), /*pieces=*/1, norms_,
                   *comm::make_communicator());
    return results;
  }

 private:
  nn::Instance instance_;
  SharedWeights weights_;
  std::vector<BatchNormInfo> norms_;

 public:
  ShardRunner runner;
};

at::Tensor unchanged(const at::Tensor& x) { return x; }

TEST(ModuleProof, SeveralShardsHaveTheBitsOfOneAfterTheOther) {
  at::set_num_threads(1);
  for (const Precision precision : {Precision::single, Precision::bf16_mixed}) {
    SCOPED_TRACE(precision == Precision::single ? "float32" : "bf16-mixed");
    ProvenModule trained(unchanged, {.precision = precision, .module_together = true});
    const std::vector<data::Shard> shards = test::shards_of(4, 4, kProofImage, kProofClasses);
    EXPECT_EQ(trained.runner.most_together(4), 1) << "before it was tried";
    std::vector<ShardResult> alone;
    std::vector<std::vector<at::Tensor>> gradients;
    for (const data::Shard& shard : shards) {
      alone.push_back(trained.runner.train(shard, 16, /*step=*/0));
      gradients.push_back(trained.runner.gradients());
    }
    EXPECT_EQ(trained.runner.apart_because(), "");
    ASSERT_EQ(trained.runner.most_together(4), 16);
    const auto ours =
        trained.reduced(trained.runner.train_together({data::joined(shards), 4}, 16, /*step=*/0));
    const auto expected = trained.reduced(alone);
    ASSERT_EQ(ours.size(), expected.size());
    for (size_t i = 0; i < ours.size(); ++i) {
      EXPECT_EQ(ours[i].loss, expected[i].loss);
      EXPECT_FALSE(ours[i].moments.values.empty());
      EXPECT_EQ(ours[i].moments.values, expected[i].moments.values);
    }
    const std::vector<at::Tensor> sums = trained.runner.gradients();
    for (size_t p = 0; p < sums.size(); ++p)
      EXPECT_TRUE(
          at::equal(sums[p], (gradients[0][p] + gradients[1][p]) + (gradients[2][p] + gradients[3][p])))
          << "parameter " << p;
  }
}

TEST(ModuleProof, TakesImagesOfAnyNumberType) {
  at::set_num_threads(1);
  ProvenModule trained(unchanged);
  data::Shard shard = test::shards_of(1, 4, kProofImage, kProofClasses).front();
  shard.images = shard.images.to(at::kFloat) / 255;
  trained.runner.train(shard, 4, /*step=*/0);
  EXPECT_EQ(trained.runner.apart_because(), "");
  EXPECT_EQ(trained.runner.most_together(4), 16);
}

TEST(ModuleProof, LeavesImagesUnchangedThatAModuleWritesInto) {
  at::set_num_threads(1);
  ProvenModule trained(unchanged, {.module_together = true}, /*doubles_images=*/true);
  data::Shard shard = test::shards_of(1, 4, kProofImage, kProofClasses).front();
  shard.images = shard.images.to(at::kFloat);
  const at::Tensor before = shard.images.clone();
  trained.runner.probe(shard);
  EXPECT_TRUE(at::equal(shard.images, before));
}

TEST(ModuleProof, AModuleGoesTogetherOnlyIfThePlanSaysSo) {
  at::set_num_threads(1);
  ProvenModule trained(unchanged, {});
  trained.runner.train(test::shards_of(1, 4, kProofImage, kProofClasses).front(), 4, /*step=*/0);
  EXPECT_EQ(trained.runner.most_together(4), 1);
}

TEST(ModuleProof, WhatMayMixSamplesIsKeptApart) {
  at::set_num_threads(1);
  const auto expect = [](const Between& between, const char* reason) {
    ProvenModule trained(between);
    trained.runner.train(test::shards_of(1, 4, kProofImage, kProofClasses).front(), 4, /*step=*/0);
    EXPECT_THAT(trained.runner.apart_because(), HasSubstr(reason));
    EXPECT_EQ(trained.runner.most_together(4), 1);
  };
  expect([](const at::Tensor& x) { return x - x.mean(std::vector<int64_t>{0}); }, "aten::mean.dim");
  expect([](const at::Tensor& x) { return x * at::rand_like(x); }, "aten::rand_like");
  expect([](const at::Tensor& x) { return torch::nn::Dropout(0.5)(x); }, "aten::dropout");
  expect([](const at::Tensor& x) { return at::cumsum(x, 2); }, "aten::cumsum");
}

// No operator tells of it, only the bits.
TEST(ModuleProof, WhatReadsMemoryItselfIsFoundByItsBits) {
  at::set_num_threads(1);
  ProvenModule trained([](const at::Tensor& x) {
    auto* values = static_cast<float*>(x.data_ptr());
    float scale = 1;
    for (int64_t i = 0; i < x.numel() / x.size(0); ++i) scale += values[i] / 1000;  // of the first sample
    for (int64_t i = 0; i < x.numel(); ++i) values[i] *= scale;
    return x;
  });
  trained.runner.train(test::shards_of(1, 4, kProofImage, kProofClasses).front(), 4, /*step=*/0);
  EXPECT_THAT(trained.runner.apart_because(), HasSubstr("other bits in larger batches"));
  EXPECT_EQ(trained.runner.most_together(4), 1);
}

TEST(ModuleProof, ComparesOutputsLossesAndGradients) {
  const data::Shard shard = test::shards_of(1, 4, kProofImage, kProofClasses).front();
  int changed = 0;
  const auto run = [&](const data::Shard& samples, int64_t shards, bool) {
    const at::Tensor values = samples.images.to(at::kFloat).flatten(1);
    PassBits bits{.logits = values.clone(),
                  .of_shards = values.sum(1).reshape({shards, -1}).unbind(),
                  .gradients = {at::full({2}, static_cast<float>(shards)), at::Tensor()},
                  .apart = ""};
    if (shards > 1 && changed == 1) bits.logits[0][0] += 1;
    if (shards > 1 && changed == 2) bits.of_shards.back() = bits.of_shards.back() + 1;
    if (shards > 1 && changed == 3) bits.gradients[0][1] += 1;
    return bits;
  };
  EXPECT_EQ(why_apart(shard, run), "");
  for (const char* reason : {"its outputs", "its losses", "its gradients"}) {
    ++changed;
    EXPECT_THAT(why_apart(shard, run), HasSubstr(reason));
  }
}

// Beside those together and a running sum.
TEST(ModuleProof, KeepsTheGradientsOfFewShards) {
  int64_t alive = 0, most = 0, passes = 0;
  float number = 1;
  const auto run = [&](const data::Shard& samples, int64_t shards, bool) {
    most = std::max(most, alive++);
    ++passes;
    const at::Tensor values = samples.images.to(at::kFloat).flatten(1);
    return PassBits{.logits = values,
                    .of_shards = values.sum(1).reshape({shards, -1}).unbind(),
                    .gradients = {at::from_blob(&number, {1}, [&](void*) { --alive; })},
                    .apart = ""};
  };
  EXPECT_THAT(why_apart(test::shards_of(1, 4, kProofImage, kProofClasses).front(), run),
              HasSubstr("its gradients"));
  EXPECT_EQ(passes, 5);
  EXPECT_LE(most, 2) << "when another is computed";
  EXPECT_EQ(alive, 0);
}

TEST(ModuleProof, WorkersOfAProcessShareATrial) {
  ModuleTrials trials;
  std::atomic<int> made = 0;
  std::vector<std::string> reasons(4);
  std::vector<std::thread> threads;
  for (std::string& reason : reasons)
    threads.emplace_back([&] {
      reason = trials.why_apart(4, [&] {
        ++made;
        return std::string("it is odd");
      });
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, 1);
  EXPECT_THAT(reasons, testing::Each("it is odd"));
  EXPECT_EQ(trials.why_apart(8, [] { return std::string(); }), "") << "shards of another size";
  EXPECT_EQ(trials.why_apart(6, [] { return std::string("it is odd"); }), "it is odd");
  EXPECT_THAT(trials.new_reasons(),
              testing::ElementsAre("the module's shards of 4 samples are computed alone: it is odd"));
  EXPECT_THAT(trials.new_reasons(), testing::IsEmpty());
}

}  // namespace
}  // namespace lockstep::train
