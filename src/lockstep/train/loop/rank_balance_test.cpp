#include "lockstep/train/loop/rank_balance.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/train/update/test_ranks.h"

namespace lockstep::train {
namespace {

using test::on_ranks;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<Range> equal_groups(int64_t count, int64_t shards) {
  std::vector<Range> groups;
  for (int64_t group = 0; group < count; ++group) groups.push_back({group * shards, (group + 1) * shards});
  return groups;
}

TEST(RankBalance, TheSlowestRankNeedsLeastTime) {
  EXPECT_THAT(fastest_parts(equal_groups(32, 1), {1, 1}), ElementsAre(16, 16));
  EXPECT_THAT(fastest_parts(equal_groups(32, 1), {1, 3}), ElementsAre(24, 8));
  EXPECT_THAT(fastest_parts(equal_groups(33, 1), {2, 1}), ElementsAre(11, 22));
  EXPECT_THAT(fastest_parts(equal_groups(8, 1), {1, 1000}), ElementsAre(7, 1)) << "none is without work";
  EXPECT_THAT(fastest_parts(equal_groups(8, 4), {1, 3}), ElementsAre(24, 8));
  EXPECT_THAT(fastest_parts(equal_groups(8, 4), {2, 3}), ElementsAre(20, 12)) << "groups are whole";
  EXPECT_THAT(fastest_parts(equal_groups(16, 2), {1, 2, 1}), ElementsAre(12, 6, 14));
}

Plan plan_of(int64_t shards, int64_t group) {
  Plan plan;
  plan.step.mini_batch_size = 128;
  plan.step.shards = shards;
  plan.step.batch_norm_group = group;
  plan.data.train_count = 1280;
  plan.machine.workers = 2;
  return plan;
}

// Steps until the ranks want another deal; the loads, and what they say.
std::pair<std::vector<int64_t>, std::string> balanced(const Plan& plan, const std::vector<double>& seconds,
                                                      int64_t most_steps = 500) {
  std::pair<std::vector<int64_t>, std::string> found;
  on_ranks(static_cast<int64_t>(seconds.size()), [&](comm::Communicator& comm) {
    RankBalance balance(plan, comm.share(), /*workers_here=*/1);
    const double slowest = *std::max_element(seconds.begin(), seconds.end());
    for (int64_t step = 0; step < most_steps && balance.better_loads().empty(); ++step) {
      balance.note_worker(0, seconds[static_cast<size_t>(comm.rank())]);
      balance.end_step(comm, 128, slowest);
    }
    if (comm.rank() == 0 && !balance.better_loads().empty()) found = {balance.better_loads(), balance.text()};
  });
  return found;
}

TEST(RankBalance, ShardsMoveToFasterRanks) {
  const auto [loads, text] = balanced(plan_of(32, 16), {0.05, 0.15});
  EXPECT_THAT(loads, ElementsAre(24, 8));
  EXPECT_THAT(text, HasSubstr("24, 8 shards from here on, not 16, 16; a step is to take 50 % of its time"));
}

TEST(RankBalance, NothingMovesForLittle) {
  EXPECT_THAT(balanced(plan_of(32, 0), {0.100, 0.115}).first, IsEmpty());
  Plan moved = plan_of(32, 16);
  moved.machine.rank_loads = {24, 8};
  EXPECT_THAT(balanced(moved, {0.1, 0.1}).first, IsEmpty());
  moved.machine.workers = 4;
  moved.machine.rank_loads = {12, 12, 4, 4};
  EXPECT_THAT(balanced(moved, {0.1, 0.1}).first, IsEmpty()) << "loads of workers";
}

TEST(RankBalance, GroupsStayOnOneRankUnlessTheyCannot) {
  EXPECT_THAT(balanced(plan_of(32, 64), {0.05, 0.15}).first, IsEmpty()) << "there are two";
  EXPECT_THAT(balanced(plan_of(32, 32), {0.04, 0.15}).first, ElementsAre(24, 8));
  EXPECT_THAT(balanced(plan_of(32, 128), {0.04, 0.15}).first, ElementsAre(26, 6)) << "it spans ranks anyway";
}

TEST(RankBalance, NothingIsMeasuredWhereTheDealDecides) {
  Plan averages = plan_of(32, 0);
  averages.exchange.kind = ExchangeKind::average;
  EXPECT_THAT(balanced(averages, {0.05, 0.15}).first, IsEmpty());
  Plan on_gpus = plan_of(32, 0);
  on_gpus.machine.device = "cuda";
  EXPECT_THAT(balanced(on_gpus, {0.05, 0.15}).first, IsEmpty());
}

}  // namespace
}  // namespace lockstep::train
