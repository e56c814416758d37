#include "lockstep/train/replica.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "lockstep/nn/layers.h"

namespace lockstep::train {
namespace {

constexpr nn::NetworkInput kInput{1, 28, 28, 10};

// A network with a replica that trains it.
struct Trained {
  explicit Trained(const std::string& network, ReplicaOptions options = {})
      : instance(seeded_instance(nn::find_network(network), kInput, 1)),
        weights(instance, at::kFloat, at::kCPU),
        norms(probe_batch_norms(instance, kInput)),
        replica(instance, weights, norms, options) {}

  // Loss, correct samples and batch norms' statistics of each shard.
  std::vector<ShardResult> settled(std::vector<ShardResult> results) const {
    settle(results, static_cast<int64_t>(results.size()), /*pieces=*/1, norms, *comm::make_communicator());
    return results;
  }

  nn::Instance instance;
  SharedWeights weights;
  std::vector<BatchNormInfo> norms;
  Replica replica;
};

std::vector<data::Shard> shards_of(int64_t count, int64_t samples) {
  const at::Tensor pictures = at::randint(256, {count * samples, 1, 28, 28}, at::kByte), target = at::randint(10, {count * samples}, at::kLong);
  std::vector<data::Shard> shards;
  for (int64_t i = 0; i < count; ++i) shards.push_back({.index = i, .pictures = pictures.narrow(0, i * samples, samples), .target = target.narrow(0, i * samples, samples), .count = samples});
  return shards;
}

TEST(Replica, ShardsTrainedTogetherGiveTheirOwnResults) {
  at::set_num_threads(1);
  for (const char* name : {"lenet", "digits_cnn"}) {
    Trained trained(name);
    const std::vector<data::Shard> shards = shards_of(4, 8);
    EXPECT_EQ(trained.replica.most_together(8), 1) << "before one was trained";
    std::vector<ShardResult> alone;
    std::vector<std::vector<at::Tensor>> gradients;
    for (const data::Shard& shard : shards) {
      alone.push_back(trained.replica.train(shard, 32, /*step=*/0));
      gradients.push_back(trained.replica.gradients());
    }
    ASSERT_EQ(trained.replica.most_together(8), 8) << name;
    const std::vector<ShardResult> expected = trained.settled(alone), ours = trained.settled(trained.replica.train_together(data::joined(shards), 4, 32));
    ASSERT_EQ(ours.size(), expected.size());
    for (size_t i = 0; i < ours.size(); ++i) {
      EXPECT_EQ(ours[i].loss, expected[i].loss);
      EXPECT_EQ(ours[i].correct, expected[i].correct);
      EXPECT_EQ(ours[i].targets, expected[i].targets);
      ASSERT_EQ(ours[i].moments.size(), expected[i].moments.size());
      for (size_t m = 0; m < ours[i].moments.size(); ++m) {
        EXPECT_EQ(ours[i].moments[m].mean, expected[i].moments[m].mean);
        EXPECT_EQ(ours[i].moments[m].deviation, expected[i].moments[m].deviation);
      }
    }
    const std::vector<at::Tensor> sums = trained.replica.gradients();
    for (size_t p = 0; p < sums.size(); ++p) {
      EXPECT_TRUE(at::equal(sums[p], (gradients[0][p] + gradients[1][p]) + (gradients[2][p] + gradients[3][p]))) << name << " " << trained.weights.slots()[p].name;
    }
  }
}

TEST(Replica, OneShardAtATimeWhereLayersAreRandomOrTheEngineComputes) {
  at::set_num_threads(1);
  const auto most_together = [](Trained trained, int64_t samples) {
    trained.replica.train(shards_of(1, samples).front(), samples, /*step=*/0);
    return trained.replica.most_together(samples);
  };
  EXPECT_EQ(most_together(Trained("squeezenet"), 2), 1);
  EXPECT_EQ(most_together(Trained("lenet", {.kernels = Kernels::engine}), 8), 1);
  EXPECT_EQ(most_together(Trained("lenet", {.accumulate = 2}), 8), 1);
  EXPECT_EQ(most_together(Trained("digits_cnn"), 100), 1) << "one alone is enough";
}

}  // namespace
}  // namespace lockstep::train
