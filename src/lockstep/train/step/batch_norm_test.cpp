#include "lockstep/train/step/batch_norm.h"

#include <cmath>
#include <memory>
#include <optional>

#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/utils.h>

#include "lockstep/base/error.h"
#include "lockstep/base/share.h"

namespace lockstep::train {
namespace {

constexpr nn::NetworkInput kNormInput{3, 5, 4, 2};
constexpr int64_t kNormSamples = 11;
constexpr int64_t kNormShards = 4;

// One batch norm of images, in double.
struct NormedImages {
  explicit NormedImages(std::optional<double> momentum = 0.1)
      : layers(torch::nn::BatchNorm2d(torch::nn::BatchNorm2dOptions(3).momentum(momentum))),
        instance{layers.ptr(), [this](const at::Tensor& input) { return layers->forward(input); }},
        weights(instance, at::kDouble, at::kCPU),
        info(probe_batch_norms(instance, kNormInput)) {}

  torch::nn::Sequential layers;
  nn::Instance instance;
  SharedWeights weights;
  std::vector<BatchNormInfo> info;
};

// Channels with different means and variances.
at::Tensor normed_images(uint64_t seed) {
  torch::manual_seed(seed);
  return at::randn({kNormSamples, 3, 5, 4}, at::kDouble) * at::tensor({1.0, 3.0, 0.1}).view({3, 1, 1}) +
         at::tensor({0.0, -2.0, 50.0}).view({3, 1, 1});
}

// The shards' moments, pooled in the tree.
Moments moments_of_shards(NormedImages& network, const at::Tensor& images) {
  const BatchNorms norms(network.instance, network.info);
  network.instance.module->train();
  return fold_tree(
      0, kNormShards,
      [&](int64_t shard) {
        const Range samples = part_of(images.size(0), kNormShards, shard);
        network.instance.forward(images.narrow(0, samples.begin, samples.count()));
        return moments_from(network.info, norms.statistics().const_data_ptr<double>(), samples.count());
      },
      [&](Moments& left, const Moments& right) { left = pooled(network.info, left, right); });
}

void expect_near(const at::Tensor& ours, const at::Tensor& expected, double tolerance = 1e-12) {
  EXPECT_TRUE(at::allclose(ours, expected, tolerance, tolerance)) << ours << "\nexpected\n" << expected;
}

TEST(BatchNorm, PooledMomentsOfShardsAreThoseOfTheWholeBatch) {
  NormedImages network;
  ASSERT_EQ(network.info.size(), 1U);
  EXPECT_EQ(network.info[0].elements_per_sample, 20);
  const at::Tensor images = normed_images(1);
  const Moments moments = moments_of_shards(network, images);
  EXPECT_EQ(moments.samples, kNormSamples);
  const at::Tensor values = at::tensor(moments.values);
  expect_near(values.narrow(0, 0, 3), images.mean({0, 2, 3}));
  expect_near(values.narrow(0, 3, 3), images.var({0, 2, 3}, /*unbiased=*/false) * kNormSamples * 20, 1e-10);
}

// As torch.nn.BatchNorm2d that sees the whole mini-batch, with a momentum and with the mean over all batches.
TEST(BatchNorm, RunningStatisticsAreThoseOfOneWorkerThatSeesTheWholeBatch) {
  for (const std::optional<double> momentum : {std::optional(0.3), std::optional<double>()}) {
    NormedImages network(momentum);
    torch::nn::BatchNorm2d whole(torch::nn::BatchNorm2dOptions(3).momentum(momentum));
    whole->to(at::kDouble);
    for (uint64_t step = 1; step <= 3; ++step) {
      const at::Tensor images = normed_images(step);
      whole->forward(images);
      apply_moments(network.weights, network.info, moments_of_shards(network, images));
    }
    expect_near(network.weights.buffer("0.running_mean"), whole->running_mean);
    expect_near(network.weights.buffer("0.running_var"), whole->running_var);
    EXPECT_EQ(network.weights.buffer("0.num_batches_tracked").item<int64_t>(), 3);
  }
}

TEST(BatchNorm, AShardWithoutSamplesChangesNothing) {
  const std::vector<BatchNormInfo> norm{{.channels = 2}};
  const Moments some{6, {1, -2, 3, 4}}, none;
  for (const auto& both : {pooled(norm, some, none), pooled(norm, none, some), averaged(norm, some, none),
                           averaged(norm, none, some)}) {
    EXPECT_EQ(both.samples, 6);
    EXPECT_EQ(both.values, some.values);
  }
}

// Weighted by 2 and 6 values, without the variance between shards: means 1 and 5 give 4, variances 3 and 7
// give 6. The second batch norm has two values in each sample.
TEST(BatchNorm, AveragedMomentsLeaveOutThePartBetweenShards) {
  const std::vector<BatchNormInfo> norms{{.channels = 1}, {.channels = 1, .elements_per_sample = 2}};
  const Moments mean = averaged(norms, {2, {1, 3.0 * 1, 1, 3.0 * 3}}, {6, {5, 7.0 * 5, 5, 7.0 * 11}});
  EXPECT_EQ(mean.samples, 8);
  EXPECT_DOUBLE_EQ(mean.values[0], 4);
  EXPECT_DOUBLE_EQ(mean.values[1] / 7, 6);
  EXPECT_DOUBLE_EQ(mean.values[2], 4);
  EXPECT_DOUBLE_EQ(mean.values[3] / 15, 6);
}

TEST(BatchNorm, ValidationUsesTheMastersStatistics) {
  NormedImages network;
  const BatchNorms norms(network.instance, network.info);
  network.weights.buffer("0.running_mean").fill_(2);
  network.weights.buffer("0.running_var").fill_(4);
  norms.load(network.weights);
  network.instance.module->eval();
  const at::Tensor normed = network.instance.forward(at::full({1, 3, 1, 1}, 6.0, at::kDouble));
  expect_near(normed, at::full({1, 3, 1, 1}, 4 / std::sqrt(4 + 1e-5), at::kDouble));
}

// Counts its forward passes in a buffer.
struct CountingImpl : torch::nn::Module {
  CountingImpl() : count(register_buffer("count", at::zeros({1}))) {
    register_parameter("weight", at::ones({1}));
  }
  at::Tensor count;
};

TEST(BatchNorm, AnyOtherBufferThatChangesIsRefusedByName) {
  const auto module = std::make_shared<CountingImpl>();
  const nn::Instance instance{module, [module](const at::Tensor& input) {
                                module->count.add_(1);
                                return input * 1;
                              }};
  try {
    probe_batch_norms(instance, kNormInput);
    FAIL() << "a buffer that counts";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("buffer \"count\""), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace lockstep::train
