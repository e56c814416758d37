#include <array>
#include <vector>

#include <gtest/gtest.h>
#include <torch/utils.h>

#include "lockstep/base/error.h"
#include "lockstep/base/test_limit.h"
#include "lockstep/comm/buckets.h"
#include "lockstep/comm/shard_tree.h"
#include "lockstep/comm/thread_group.h"

namespace lockstep::comm {
namespace {

at::Tensor tree_sum(const std::vector<at::Tensor>& shards, int64_t workers) {
  const auto shard_count = static_cast<int64_t>(shards.size());
  const int64_t count = shards[0].numel();
  std::vector<NodeStack> stacks;
  std::vector<Node> nodes;
  for (int64_t rank = 0; rank < workers; ++rank) {
    const Range own = part_of(shard_count, workers, rank);
    NodeStack& stack = stacks.emplace_back(count, at::kFloat, at::kCPU);
    for (int repeat = 0; repeat < 2; ++repeat) {
      stack.begin(shard_count);
      for (int64_t shard = own.begin; shard < own.end; ++shard) {
        stack.take(single(shard), [&](const at::Tensor& buffer, bool add) {
          add ? buffer.add_(shards[shard]) : buffer.copy_(shards[shard]);
        });
      }
    }
    nodes.insert(nodes.end(), stack.nodes().begin(), stack.nodes().end());
  }
  at::Tensor sum = at::empty({count});
  std::vector<float> scratch(static_cast<size_t>(scratch_blocks(shard_count) * 16));
  for (int64_t begin = 0; begin < count; begin += 16) {
    const int64_t size = std::min<int64_t>(16, count - begin);
    const float* block = finish_block<float>(nodes, shard_count, begin, size, scratch.data());
    std::copy(block, block + size, sum.data_ptr<float>() + begin);
  }
  return sum;
}

TEST(ShardTree, AnyNumberOfWorkersGivesTheSameBits) {
  torch::manual_seed(3);
  for (const int64_t shard_count : {1, 2, 3, 5, 8, 13, 16}) {
    std::vector<at::Tensor> shards;
    for (int64_t i = 0; i < shard_count; ++i) shards.push_back(at::randn({100}) * std::pow(10.0, i % 5));
    const at::Tensor expected =
        fold(shards, 0, shard_count, [](const at::Tensor& a, const at::Tensor& b) { return a + b; });
    for (const int64_t workers : {1, 2, 3, 4, 5, 8, 20})
      EXPECT_TRUE(at::equal(tree_sum(shards, workers), expected))
          << shard_count << " shards, " << workers << " workers";
  }
}

TEST(ShardTree, ShardsTakenInPartsGiveTheSameBits) {
  torch::manual_seed(4);
  constexpr int64_t kCount = 100;
  for (const int64_t shard_count : {1, 3, 8}) {
    NodeStack whole(kCount, at::kFloat, at::kCPU);
    NodeStack parts(kCount, at::kFloat, at::kCPU);
    whole.begin(shard_count);
    parts.begin(shard_count);
    for (int64_t shard = 0; shard < shard_count; ++shard) {
      const at::Tensor gradient = at::randn({kCount});
      const auto write = [](const at::Tensor& value) {
        return [=](const at::Tensor& buffer, bool add) { add ? buffer.add_(value) : buffer.copy_(value); };
      };
      whole.take(single(shard), write(gradient));
      const NodeStack::Destination place = parts.begin_node(single(shard));
      write(gradient.slice(0, 7, 60))(place.buffer.slice(0, 7, 60), place.add);
      for (const Range part : {Range{60, 100}, Range{0, 7}})
        parts.take_part(part, write(gradient.slice(0, part.begin, part.end)));
      parts.take_part({7, 60}, [](const at::Tensor&, bool) {});
      parts.end_node();
    }
    EXPECT_TRUE(at::equal(whole.nodes().front().sum, parts.nodes().front().sum)) << shard_count << " shards";
  }
}

TEST(ShardTree, ShardsTakenInNodesGiveTheSameBits) {
  torch::manual_seed(5);
  for (const int64_t shard_count : {1, 3, 5, 8, 13}) {
    std::vector<at::Tensor> shards;
    for (int64_t i = 0; i < shard_count; ++i) shards.push_back(at::randn({50}) * std::pow(10.0, i % 5));
    const auto sum_of = [&](Range node) {
      return fold(shards, node.begin, node.end,
                  [](const at::Tensor& a, const at::Tensor& b) { return a + b; });
    };
    for (const int64_t most : {1, 2, 3, 4, 20}) {
      NodeStack stack(50, at::kFloat, at::kCPU);
      stack.begin(shard_count);
      for (int64_t next = 0; next < shard_count;) {
        const Range node = node_from(next, most, shard_count);
        EXPECT_LE(node.count(), most);
        const at::Tensor sum = sum_of(node);
        stack.take(node,
                   [&](const at::Tensor& buffer, bool add) { add ? buffer.add_(sum) : buffer.copy_(sum); });
        next = node.end;
      }
      EXPECT_TRUE(at::equal(stack.nodes().front().sum, sum_of({0, shard_count})))
          << shard_count << " shards, at most " << most << " together";
    }
  }
}

TEST(ShardTree, OnlyNodesAreTakenAndOnlyOnce) {
  const auto nothing = [](const at::Tensor& buffer, bool) { buffer.zero_(); };
  NodeStack stack(10, at::kFloat, at::kCPU);
  stack.begin(8);
  stack.take({4, 6}, nothing);
  EXPECT_THROW(stack.take({1, 3}, nothing), Error);
  EXPECT_THROW(stack.take({0, 3}, nothing), Error);
  EXPECT_THROW(stack.take({8, 9}, nothing), Error);
  EXPECT_THROW(stack.take(single(5), nothing), Error) << "it is in (4, 6)";
  EXPECT_THROW(stack.take({4, 8}, nothing), Error);
}

TEST(ShardTree, BuffersThatOthersHoldAreNotWrittenAgain) {
  NodeStack stack(10, at::kFloat, at::kCPU);
  const auto sum_of_step = [&](double value) {
    stack.begin(1);
    stack.leave_held();
    stack.take(single(0), [&](const at::Tensor& buffer, bool) { buffer.fill_(value); });
    return stack.nodes().front().sum;
  };
  const at::Tensor tensor = sum_of_step(1);
  const at::Tensor view = sum_of_step(2).narrow(0, 2, 3);
  const at::Tensor detached = sum_of_step(3).view({2, 5}).detach();
  const void* unheld = sum_of_step(4).const_data_ptr();
  EXPECT_EQ(sum_of_step(5).const_data_ptr(), unheld) << "a step finds its memory again";
  EXPECT_TRUE(tensor.eq(1).all().item<bool>());
  EXPECT_TRUE(view.eq(2).all().item<bool>());
  EXPECT_TRUE(detached.eq(3).all().item<bool>());
}

TEST(Buckets, TheLastGradientsGoFirst) {
  constexpr int64_t kLarge = 300'000;
  const std::vector<int64_t> starts{0, 1000, kLarge, kLarge + 1000, 2 * kLarge + 1000, 3 * kLarge};
  const int64_t count = 3 * kLarge + 10;
  const std::vector<Range> cut = cut_buckets(starts, count, kLarge - 20'000);
  const std::vector<Range> expected{
      {2 * kLarge + 1000, count}, {kLarge + 1000, 2 * kLarge + 1000}, {0, kLarge + 1000}};
  ASSERT_EQ(cut.size(), 3U);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(cut[i].begin, expected[i].begin);
    EXPECT_EQ(cut[i].end, expected[i].end);
  }
  EXPECT_EQ(cut_buckets({0, 100}, 1000, 1000).size(), 1U);
}

TEST(Buckets, RanksMeasureOneSizeTogether) {
  constexpr int64_t kCount = 3'000'000;
  EXPECT_EQ(measure_bucket(*make_communicator(), at::kFloat, kCount), kCount);
  const auto memory = GroupMemory::make(3);
  std::array<int64_t, 3> large{}, small{};
  ThreadGroup(3).run([&](Share share) {
    const auto comm = make_communicator(memory, share.rank);
    large[static_cast<size_t>(share.rank)] = measure_bucket(*comm, at::kFloat, kCount);
    small[static_cast<size_t>(share.rank)] = measure_bucket(*comm, at::kDouble, 1000);
  });
  EXPECT_GE(large[0], 1 << 14);
  EXPECT_LE(large[0], 1 << 20);
  EXPECT_EQ(large, (std::array<int64_t, 3>{large[0], large[0], large[0]}));
  EXPECT_EQ(small, (std::array<int64_t, 3>{1000, 1000, 1000}));
}

TEST(ThreadGroup, BarrierShowsWhatOthersWrote) {
  for (const int64_t size : {1, 2, 5}) {
    ThreadGroup group(size);
    std::vector<int> values(static_cast<size_t>(size));
    std::atomic<int> wrong = 0;
    group.run([&](Share share) {
      for (int step = 1; step <= 200; ++step) {
        values[share.rank] = step;
        group.barrier();
        for (const int value : values) wrong += value != step;
        group.barrier();
      }
    });
    EXPECT_EQ(wrong, 0);
  }
}

TEST(ThreadGroup, OneFailureEndsAllAndIsTheOneReported) {
  ThreadGroup group(3);
  try {
    group.run([&](Share share) {
      if (share.rank == 1) throw Error(ErrorCode::io, "disk gone");
      group.barrier();
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "disk gone");
  }
}

TEST(ThreadGroup, AThreadThatCannotStartEndsThoseThatWaitForIt) {
  if (test::kSanitized) GTEST_SKIP() << "not with a sanitizer";
  ThreadGroup group(100);
  std::string said;
  {
    const test::AddressSpaceLimit limit(40 << 20);
    try {
      group.run([&](Share) { group.barrier(); });
    } catch (const Error& error) {
      said = error.message();
    }
  }
  EXPECT_TRUE(said.starts_with("cannot start thread ")) << said;
  EXPECT_NE(said.find(" of 100: Resource temporarily unavailable"), std::string::npos) << said;
}

}  // namespace
}  // namespace lockstep::comm
