#include "lockstep/train/step/norm_groups.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/train/step/group_meeting.h"

namespace lockstep::train {
namespace {

TEST(NormGroups, AreTheLargestNodesOfAtMostSoManySamples) {
  using Groups = std::vector<Range>;
  EXPECT_EQ(norm_groups({.samples = 32, .shards = 8, .group_samples = 16}), (Groups{{0, 4}, {4, 8}}));
  EXPECT_EQ(norm_groups({.samples = 32, .shards = 8, .group_samples = 15}),
            (Groups{{0, 2}, {2, 4}, {4, 6}, {6, 8}}));
  EXPECT_EQ(norm_groups({.samples = 32, .shards = 8, .group_samples = 32}), (Groups{{0, 8}}));
  EXPECT_EQ(norm_groups({.samples = 6, .shards = 2, .group_samples = 1}), (Groups{{0, 1}, {1, 2}}))
      << "at least one shard";
  EXPECT_EQ(norm_groups({.samples = 6, .shards = 2, .group_samples = 0}), (Groups{{0, 1}, {1, 2}}));
  // Shards of 3, 3, 2, 2 and 2 samples; the tree cuts five shards after the second.
  EXPECT_EQ(norm_groups({.samples = 12, .shards = 5, .group_samples = 6}), (Groups{{0, 2}, {2, 5}}));
}

// The workers, or ranks, that have a shard of the group.
std::set<int64_t> owners(Range group, int64_t shards, const Deal& deal) {
  std::set<int64_t> found;
  for (int64_t worker = 0; worker < deal.workers; ++worker) {
    const Range own = deal.of_worker(shards, worker);
    if (own.begin < group.end && group.begin < own.end) found.insert(worker);
  }
  return found;
}

TEST(NormGroups, GroupsOfOneTurnShareNoWorkerAndNoRank) {
  for (const Deal& deal : std::vector<Deal>{{1, 2},
                                            {1, 3},
                                            {1, 5},
                                            {1, 8},
                                            {1, 32},
                                            {3, 3},
                                            {3, 6},
                                            {5, 5},
                                            {7, 14},
                                            {2, 4, {2, 1}},
                                            {3, 6, {5, 1, 3}}}) {
    for (const int64_t shards : {1, 2, 5, 8, 13, 32, 33}) {
      for (const int64_t group_samples : {4, 8, 16, 24, 132}) {
        const auto groups = norm_groups({4 * shards, shards, group_samples});
        std::set<Range, decltype([](Range a, Range b) { return a.begin < b.begin; })> spanning;
        std::map<int64_t, std::set<int64_t>> busy_workers, busy_ranks;
        for (const SpanningGroup& group : spanning_groups(groups, shards, deal)) {
          spanning.insert(group.shards);
          const auto all = owners(group.shards, shards, deal);
          EXPECT_GT(all.size(), 1U);
          std::set<int64_t> of_ranks;
          for (const int64_t worker : all) {
            EXPECT_TRUE(busy_workers[group.turn].insert(worker).second) << deal.ranks << " " << deal.workers;
            of_ranks.insert(worker / (deal.workers / deal.ranks));
          }
          EXPECT_EQ(group.spans_ranks, of_ranks.size() > 1);
          EXPECT_EQ(group.spans_ranks, group.turn < 2);
          for (const int64_t rank : of_ranks) {
            EXPECT_TRUE(!group.spans_ranks || busy_ranks[group.turn].insert(rank).second);
          }
        }
        for (const Range group : groups)
          EXPECT_EQ(spanning.contains(group), owners(group, shards, deal).size() > 1);
      }
    }
  }
}

kernels::NormSums sums(double value) { return {1, value, value * value}; }

TEST(GroupMeeting, EveryPassGetsTheSumOfTheTree) {
  GroupMeeting meeting({0, 4}, {0, 4});
  std::vector<std::vector<kernels::NormSums>> found(3);
  std::vector<std::thread> passes;
  const std::vector<Range> nodes{{0, 1}, {1, 2}, {2, 4}};
  for (size_t i = 0; i < nodes.size(); ++i) {
    passes.emplace_back([&, i] {
      GroupMeeting::Pass pass(meeting, nodes[i], nullptr);
      for (int round = 0; round < 50; ++round)
        found[i].push_back(pass.fold(sums(static_cast<double>(i) + round), &kernels::add_sums));
    });
  }
  for (std::thread& pass : passes) pass.join();
  EXPECT_EQ(found[0], found[1]);
  EXPECT_EQ(found[0], found[2]);
  EXPECT_EQ(found[0][3], (kernels::NormSums{3, 12, 9 + 16 + 25}));
}

TEST(GroupMeeting, NobodyWaitsForAPassThatEndsOrGivesUp) {
  for (const bool gives_up : {false, true}) {
    GroupMeeting meeting({0, 2}, {0, 2});
    std::thread other([&] {
      const GroupMeeting::Pass pass(meeting, {1, 2}, nullptr);
      if (gives_up) meeting.give_up();
    });
    GroupMeeting::Pass pass(meeting, {0, 1}, nullptr);
    try {
      pass.fold(sums(1), &kernels::add_sums);
      ADD_FAILURE() << "the other pass gave nothing";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), gives_up ? ErrorCode::cancelled : ErrorCode::invalid_option);
    }
    other.join();
  }
}

TEST(GroupMeeting, OtherLayersAreAnError) {
  GroupMeeting meeting({0, 2}, {0, 2});
  const auto code_of = [&](Range node, const kernels::NormSums& own) {
    GroupMeeting::Pass pass(meeting, node, nullptr);
    try {
      pass.fold(own, &kernels::add_sums);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::internal;
  };
  ErrorCode other = ErrorCode::internal;
  std::thread thread([&] { other = code_of({1, 2}, {1, 2, 3, 4, 5}); });
  EXPECT_EQ(code_of({0, 1}, sums(1)), ErrorCode::invalid_option);
  thread.join();
  EXPECT_EQ(other, ErrorCode::invalid_option);
}

}  // namespace
}  // namespace lockstep::train
