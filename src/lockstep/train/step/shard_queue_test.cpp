#include "lockstep/train/step/shard_queue.h"

#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

std::vector<data::Shard> shards(int64_t begin, int64_t end) {
  std::vector<data::Shard> all;
  for (int64_t index = begin; index < end; ++index) all.push_back({.index = index, .count = 4});
  return all;
}

std::vector<int64_t> taken_together(ShardQueue& deal, int64_t thread, int64_t most, int64_t shard_count) {
  std::vector<int64_t> indices;
  for (const data::Shard& shard : deal.take(thread, most, {shard_count})) indices.push_back(shard.index);
  return indices;
}

int64_t taken(ShardQueue& deal, int64_t thread) {
  const auto indices = taken_together(deal, thread, /*most=*/1, /*shard_count=*/6);
  return indices.empty() ? -1 : indices.front();
}

TEST(ShardQueue, OwnShardsComeFirstAndInOrder) {
  ShardQueue deal(2);
  deal.offer(0, shards(0, 2));
  deal.offer(1, shards(2, 4));
  EXPECT_EQ(taken(deal, 1), 2);
  EXPECT_EQ(taken(deal, 0), 0);
  EXPECT_EQ(taken(deal, 0), 1);
  EXPECT_EQ(taken(deal, 1), 3);
  EXPECT_EQ(taken(deal, 0), -1);
}

TEST(ShardQueue, WhoIsDoneTakesTheLastOfWhoHasMostLeft) {
  ShardQueue deal(3);
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

TEST(ShardQueue, OwnShardsComeTogetherAsNodesOfTheTree) {
  using Indices = std::vector<int64_t>;
  ShardQueue deal(2);
  deal.offer(0, shards(0, 3));
  deal.offer(1, shards(3, 8));
  EXPECT_EQ(taken_together(deal, 0, 4, 8), (Indices{0, 1}))
      << "(0, 4) is a node, but 3 is the other thread's";
  EXPECT_EQ(taken_together(deal, 1, 4, 8), (Indices{3}));
  EXPECT_EQ(taken_together(deal, 1, 3, 8), (Indices{4, 5}));
  EXPECT_EQ(taken_together(deal, 0, 4, 8), (Indices{2}));
  EXPECT_EQ(taken_together(deal, 0, 4, 8), (Indices{7})) << "another's shards are taken one by one";
  EXPECT_EQ(taken_together(deal, 1, 4, 8), (Indices{6}));
}

TEST(ShardQueue, OnlyShardsOfOneSizeComeTogether) {
  ShardQueue deal(1);
  auto uneven = shards(0, 4);
  uneven[3].count = 3;
  deal.offer(0, uneven);
  EXPECT_EQ(taken_together(deal, 0, 4, 4), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(taken_together(deal, 0, 4, 4), (std::vector<int64_t>{2}));
}

TEST(ShardQueue, AGroupComesAsAWhole) {
  ShardQueue deal(2);
  deal.offer(0, shards(0, 4));
  deal.offer(1, shards(4, 8));
  const std::vector<Range> groups{{0, 2}, {2, 4}, {4, 6}, {6, 8}};
  const auto taken = [&](int64_t thread, int64_t most) {
    std::vector<int64_t> indices;
    for (const data::Shard& shard : deal.take(thread, most, {8, groups})) indices.push_back(shard.index);
    return indices;
  };
  using Indices = std::vector<int64_t>;
  EXPECT_EQ(taken(0, 1), (Indices{0, 1})) << "one shard at a time, but the group is not cut";
  EXPECT_EQ(taken(0, 1), (Indices{2, 3}));
  EXPECT_EQ(taken(0, 1), (Indices{6, 7})) << "another's groups are taken from the end";
  EXPECT_EQ(taken(1, 1), (Indices{4, 5}));
  deal.offer(0, shards(0, 4));
  EXPECT_EQ(taken(0, 4), (Indices{0, 1, 2, 3})) << "two groups are a node";
}

TEST(ShardQueue, AStepThatWasBrokenOffLeavesNothing) {
  ShardQueue deal(1);
  deal.offer(0, shards(0, 3));
  EXPECT_EQ(taken(deal, 0), 0);
  deal.offer(0, shards(5, 6));
  EXPECT_EQ(taken(deal, 0), 5);
  EXPECT_EQ(taken(deal, 0), -1);
}

}  // namespace
}  // namespace lockstep::train
