#include "lockstep/train/planning/fitting_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/nn/layers.h"
#include "lockstep/train/planning/prepare.h"

namespace lockstep::train {
namespace {

using testing::HasSubstr;

Plan plan_of(int64_t train_count) {
  Plan plan;
  plan.step.shards = 0;  // by the network and the mini-batch
  plan.network.input = {1, 28, 28, 10};
  plan.data.format.channels = 1;
  plan.data.format.height = plan.data.format.width = 28;
  plan.data.train_count = train_count;
  plan.network.learned_count = plan.network.parameter_count = 123'090;
  plan.machine.read_ahead = 4;
  return plan;
}

constexpr double kMegabyte = 1 << 20;

TEST(FittingBatch, ItIsTheLargestPowerOfTwoThatFits) {
  const ShardMemory shard{.fixed = kMegabyte, .each_sample = kMegabyte};
  const Plan plan = plan_of(1'000'000);
  const FittingBatch found = fitting_batch(plan, shard, 600 * kMegabyte);
  EXPECT_EQ(found.samples, 256);
  EXPECT_LE(step_memory(plan, shard, 256), 600 * kMegabyte);
  EXPECT_GT(step_memory(plan, shard, 512), 600 * kMegabyte);
  EXPECT_THAT(found.reason, HasSubstr("twice as many would take 1.0 GB"));
}

TEST(FittingBatch, AnEpochKeepsTenSteps) {
  const FittingBatch found = fitting_batch(plan_of(9'000), {.fixed = 0, .each_sample = 1}, 1e12);
  EXPECT_EQ(found.samples, 512);
  EXPECT_THAT(found.reason, HasSubstr("fewer than 10 steps"));
  EXPECT_EQ(fitting_batch(plan_of(3), {.fixed = 0, .each_sample = 1}, 1e12).samples, 1);
}

TEST(FittingBatch, ReplicasHaveMiniBatchesOfTheirOwn) {
  Plan plan = plan_of(9'000);
  plan.exchange.kind = ExchangeKind::average;
  plan.step.shards = 4;
  EXPECT_EQ(fitting_batch(plan, {.fixed = 0, .each_sample = 1}, 1e12).samples, 128);
}

TEST(FittingBatch, WhatNeverFitsIsSaidSo) {
  try {
    fitting_batch(plan_of(1'000), {.fixed = 1e9, .each_sample = 1}, 1e8);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_THAT(error.hint(), HasSubstr("--memory-share"));
  }
}

TEST(FittingBatch, WhatNoMachineOfThisSizeCanTrainIsRefused) {
  const nn::Network network = nn::find_network("digits_cnn");
  Plan plan = plan_of(1'000);
  plan.step.mini_batch_size = 128;
  plan.step.shards = 8;
  plan.machine.workers = 2;
  device::Inventory inventory;
  inventory.memory_bytes = int64_t{24} << 30;
  check_step_memory(plan, network, 1, inventory);
  EXPECT_LT(least_step_memory(plan, network, 1),
            0.25 * step_memory(plan, measure_shard_memory(network, plan), 128));
  plan.network.input.height = plan.network.input.width = plan.data.format.height = plan.data.format.width =
      8192;
  try {
    check_step_memory(plan, network, 1, inventory);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_THAT(
        error.message(),
        HasSubstr(
            "and this machine has 24.0 GB: 128 images of 8192x8192 in a mini-batch, 8 shards, 2 workers"));
  }
  plan.machine.device = "cuda";
  check_step_memory(plan, network, 1, inventory);
}

TEST(FittingBatch, AShardsMemoryIsThatOfItsActivations) {
  const nn::Network network = nn::find_network("digits_cnn");
  Plan plan = plan_of(1'000);
  const ShardMemory shard = measure_shard_memory(network, plan);
  // At the least the input in float32 and what the first convolution gives; at the most some hundred times
  // the input.
  EXPECT_GT(shard.each_sample, 28 * 28 * 4);
  EXPECT_LT(shard.each_sample, 28 * 28 * 4 * 500);
  EXPECT_LT(shard.fixed, 64 * kMegabyte);
  const ShardMemory again = measure_shard_memory(network, plan);
  EXPECT_NEAR(again.each_sample, shard.each_sample, 0.01 * shard.each_sample);
  plan.step.accumulate = 4;
  EXPECT_LT(measure_shard_memory(network, plan).each_sample, shard.each_sample / 2)
      << "pieces are computed one after the other";
}

}  // namespace
}  // namespace lockstep::train
