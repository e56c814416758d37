#include "lockstep/train/shard_deal.h"

#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

std::vector<data::Shard> shards(int64_t begin, int64_t end) {
  std::vector<data::Shard> all;
  for (int64_t index = begin; index < end; ++index) all.push_back({.index = index});
  return all;
}

int64_t taken(ShardDeal& deal, int64_t thread) {
  const auto shard = deal.take(thread);
  return shard ? shard->index : -1;
}

TEST(ShardDeal, OwnShardsComeFirstAndInOrder) {
  ShardDeal deal(2);
  deal.offer(0, shards(0, 2));
  deal.offer(1, shards(2, 4));
  EXPECT_EQ(taken(deal, 1), 2);
  EXPECT_EQ(taken(deal, 0), 0);
  EXPECT_EQ(taken(deal, 0), 1);
  EXPECT_EQ(taken(deal, 1), 3);
  EXPECT_EQ(taken(deal, 0), -1);
}

TEST(ShardDeal, WhoIsDoneTakesTheLastOfWhoHasMostLeft) {
  ShardDeal deal(3);
  deal.offer(0, shards(0, 4));
  deal.offer(1, shards(4, 6));
  deal.offer(2, {});
  EXPECT_EQ(taken(deal, 2), 3);
  EXPECT_EQ(taken(deal, 2), 2);
  EXPECT_EQ(taken(deal, 0), 0);
  EXPECT_EQ(taken(deal, 2), 5) << "one is left of the first thread's, two of the second's";
  EXPECT_EQ(taken(deal, 1), 4);
  EXPECT_EQ(taken(deal, 1), 1);
  EXPECT_EQ(taken(deal, 1), -1);
}

TEST(ShardDeal, AStepThatWasBrokenOffLeavesNothing) {
  ShardDeal deal(1);
  deal.offer(0, shards(0, 3));
  EXPECT_EQ(taken(deal, 0), 0);
  deal.offer(0, shards(5, 6));
  EXPECT_EQ(taken(deal, 0), 5);
  EXPECT_EQ(taken(deal, 0), -1);
}

}  // namespace
}  // namespace lockstep::train
