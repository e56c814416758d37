#include "lockstep/train/planning/shard_deal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr DealFacts kResnet{.work = 95e6};
constexpr DealFacts kWide{.work = 23e6};
constexpr DealFacts kLenet{.work = 2.3e6};

// A mini-batch of 128 in 32 shards.
Plan plan_with(int64_t workers, int64_t learned, int64_t batch_norms) {
  Plan plan;
  plan.step.mini_batch_size = 128;
  plan.step.shards = 32;
  plan.step.batch_norm_group = batch_norms > 0 ? 16 : 0;
  plan.network.learned_count = learned;
  plan.network.batch_norms = batch_norms;
  plan.machine.workers = workers;
  return plan;
}
Plan resnet18(int64_t workers) { return plan_with(workers, 11'175'370, 20); }
Plan lenet(int64_t workers) { return plan_with(workers, 431'080, 0); }

TEST(ShardDeal, GroupsOfBatchNormStayOnOneWorker) {
  const ShardDeal three = choose_deal(resnet18(3), kResnet);
  EXPECT_THAT(three.loads, ElementsAre(12, 12, 8));
  EXPECT_EQ(three.value, "8 to 12 shards a worker");
  EXPECT_EQ(three.reason,
            "in nodes of the tree: 5 sums of gradients and 0 meetings for batch norm a step, not 9 and 80 as "
            "with 10 to 11 shards a worker");
}

TEST(ShardDeal, WorkersThatShareAGroupHaveEqualPartsOfIt) {
  EXPECT_THAT(choose_deal(resnet18(6), kResnet).loads, ElementsAre(6, 6, 6, 6, 4, 4));
  EXPECT_THAT(choose_deal(resnet18(9), kResnet).loads, ElementsAre(4, 4, 4, 4, 4, 4, 4, 2, 2));
}

TEST(ShardDeal, NoWorkerIsLeftIdleForIt) {
  for (const int64_t workers : {1, 2, 4, 5, 7, 8, 16, 32, 40})
    EXPECT_THAT(choose_deal(resnet18(workers), kResnet).loads, IsEmpty()) << workers;
}

TEST(ShardDeal, NodesOfALargeNetworkCostMoreThanSamples) {
  EXPECT_THAT(choose_deal(plan_with(3, 22'928'970, 0), kWide).loads, ElementsAre(12, 12, 8));
  EXPECT_THAT(choose_deal(lenet(3), kLenet).loads, IsEmpty());
}

TEST(ShardDeal, BytesBetweenMachinesCount) {
  const auto three_ranks = [](bool one_machine) {
    Plan plan = lenet(3);
    plan.exchange.overlap = false;
    return choose_deal(plan, {.ranks = 3, .one_machine = one_machine, .work = kLenet.work});
  };
  EXPECT_THAT(three_ranks(false).loads, ElementsAre(12, 12, 8));
  EXPECT_THAT(three_ranks(true).loads, IsEmpty());
}

TEST(ShardDeal, RanksKeepPartsThatAreNotMovedAgain) {
  Plan plan = resnet18(3);
  plan.step.shards = 24;
  plan.step.mini_batch_size = 96;
  EXPECT_THAT(choose_deal(plan, kResnet).loads, ElementsAre(9, 9, 6)) << "threads";
  EXPECT_THAT(choose_deal(plan, {.ranks = 3, .work = kResnet.work}).loads, IsEmpty())
      << "8, 8, 8 is a ninth less";
}

TEST(ShardDeal, SamplesCountMostWhereTheWorkIsNotKnown) {
  EXPECT_THAT(choose_deal(plan_with(3, 22'928'970, 0), {}).loads, IsEmpty());
  EXPECT_THAT(choose_deal(resnet18(3), {}).loads, ElementsAre(12, 12, 8));
}

TEST(ShardDeal, PartsThatDecideTheWeightsStay) {
  Plan plan = resnet18(3);
  plan.exchange.kind = ExchangeKind::bf16;
  EXPECT_THAT(choose_deal(plan, kResnet).loads, IsEmpty());
  plan = resnet18(3);
  plan.machine.rank_loads = {1};
  EXPECT_THAT(choose_deal(plan, kResnet).loads, IsEmpty()) << "--worker-load";
  plan = resnet18(3);
  plan.machine.device = "cuda";
  EXPECT_THAT(choose_deal(plan, kResnet).loads, IsEmpty());
}

}  // namespace
}  // namespace lockstep::train
