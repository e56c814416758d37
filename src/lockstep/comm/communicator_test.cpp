// One text for every kind of communicator: a group of one, of threads, of processes.
#include <cmath>
#include <iostream>
#include <limits>
#include <stop_token>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/test_ranks.h"
#include "lockstep/device/gpu.h"

namespace lockstep::comm {
namespace {

using namespace test;
using namespace std::chrono_literals;

class CommunicatorContract : public testing::TestWithParam<Kind> {
 protected:
  void run(const Work& work) {
    const auto texts = failures(GetParam(), work);
    for (size_t rank = 0; rank < texts.size(); ++rank) EXPECT_EQ(texts[rank], "") << "rank " << rank;
  }
};

std::vector<Kind> made_kinds() {
  std::vector<Kind> kinds{{"one", false, 1},
                          {"threads", false, 2},
                          {"threads", false, 3},
                          {"processes", true, 2},
                          {"processes", true, 3},
                          {"joined", true, 3, true},
                          {"gloo", true, 1, true, CommunicatorKind::gloo},
                          {"gloo", true, 2, true, CommunicatorKind::gloo},
                          kGloo,
                          kLinkedThreads};
  const Kind nccl{"nccl", false, 2, false, CommunicatorKind::auto_, Link::nccl};
  const auto gpus = static_cast<int64_t>(device::inspect_gpus().gpus.size());
  if (gpus >= nccl.size)
    kinds.push_back(nccl);
  else
    std::cerr << "NCCL's communicator is NOT tested: it needs " << nccl.size << " GPUs, and there are "
              << gpus << " to use. " << device::inspect_gpus().note << "\n";
  return kinds;
}

const std::vector<Kind>& kinds_here() {
  static const std::vector<Kind> kinds = made_kinds();
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Kinds, CommunicatorContract, testing::ValuesIn(kinds_here()), [](const auto& info) {
  return std::string(info.param.name) + "_" + std::to_string(info.param.size);
});

TEST_P(CommunicatorContract, SumsInRankOrder) {
  run([](Communicator& comm) {
    for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kLong, at::kInt, at::kShort, at::kChar}) {
      for (const int64_t count : {0, 1, 2, 5000, 300'001}) {
        at::Tensor expected = values_of(0, count, type);
        for (int64_t rank = 1; rank < comm.size(); ++rank) expected = expected + values_of(rank, count, type);
        const at::Tensor sum = values_of(comm.rank(), count, type);
        comm.all_reduce({sum}, Reduction::sum);
        expect(at::equal(sum, expected), "the sum of " + std::to_string(count) + " of type " +
                                             c10::toString(type) + " is that in rank order");
      }
    }
  });
}

TEST_P(CommunicatorContract, MeanAndMaxOfAList) {
  run([](Communicator& comm) {
    const auto n = static_cast<double>(comm.size());
    const at::Tensor first = at::full({3, 2}, static_cast<double>(comm.rank()), at::kFloat);
    const at::Tensor every_other =
        at::zeros({8}, at::kDouble).slice(0, 0, 8, 2).fill_(static_cast<double>(comm.rank() + 1));
    const at::Tensor half = at::full({4}, static_cast<double>(comm.rank()), at::kBFloat16);
    comm.all_reduce({first, every_other, half}, Reduction::mean);
    expect(at::equal(first, at::full({3, 2}, static_cast<float>((n - 1) / 2))),
           "the mean of ranks is (n - 1) / 2");
    expect(at::equal(every_other, at::full({4}, (n + 1) / 2, at::kDouble)),
           "a tensor with strides is written in place");
    expect(at::equal(half, at::full({4}, (n - 1) / 2, at::kBFloat16)), "bf16 has a mean");
    const at::Tensor odd = at::tensor(
        {static_cast<float>(comm.rank()), comm.rank() == 0 ? std::numeric_limits<float>::quiet_NaN() : 1.0F});
    comm.all_reduce({odd}, Reduction::max);
    expect(odd[0].item<double>() == n - 1, "max is the last rank");
    expect(std::isnan(odd[1].item<float>()), "a NaN stays");
  });
}

TEST_P(CommunicatorContract, NumbersAndFlags) {
  run([](Communicator& comm) {
    const auto n = static_cast<double>(comm.size());
    expect(comm.all_reduce(2.5, Reduction::sum) == 2.5 * n, "numbers add");
    expect(comm.all_reduce(static_cast<double>(comm.rank()), Reduction::max) == n - 1,
           "numbers have a maximum");
    expect(comm.all_reduce(true, FlagReduction::and_), "all true");
    expect(comm.all_reduce(comm.rank() == 0, FlagReduction::and_) == (comm.size() == 1),
           "one false is enough");
    expect(comm.all_reduce(comm.rank() == 0, FlagReduction::or_), "one true is enough");
    expect(!comm.all_reduce(false, FlagReduction::or_), "none true");
  });
}

TEST_P(CommunicatorContract, BroadcastFromEachRank) {
  run([](Communicator& comm) {
    for (int64_t root = 0; root < comm.size(); ++root) {
      const at::Tensor large = values_of(comm.rank(), 300'000, at::kFloat);
      const at::Tensor flags = at::full({5}, comm.rank() == root, at::kBool);
      comm.broadcast({large, flags}, root);
      expect(at::equal(large, values_of(root, 300'000, at::kFloat)), "the values are those of the root");
      expect(flags.all().item<bool>(), "each type of a list is sent");
    }
  });
}

TEST_P(CommunicatorContract, GatherOfUnequalSizes) {
  run([](Communicator& comm) {
    const auto own = [](int64_t rank) {
      return values_of(rank, rank == 0 ? 300'000 : 2 * rank, at::kFloat).view({-1, 2});
    };
    std::vector<at::Tensor> expected;
    for (int64_t rank = 0; rank < comm.size(); ++rank) expected.push_back(own(rank));
    expect(at::equal(comm.cat(own(comm.rank())), at::cat(expected)), "cat puts one behind the other");
    const int64_t root = comm.size() - 1;
    const auto parts = comm.gather(own(comm.rank()), root);
    expect(parts.size() == (comm.rank() == root ? expected.size() : 0), "only the root has the list");
    for (size_t i = 0; i < parts.size(); ++i)
      expect(at::equal(parts[i], expected[i]), "each part is a rank's");
    expect(
        comm.all_gather(at::zeros({comm.rank(), 3})).back().sizes() == at::IntArrayRef({comm.size() - 1, 3}),
        "a rank may have nothing");
  });
}

// `stacks` stand for the threads of a rank: each adds a part of the rank's shards.
std::vector<NodeStack> stacks_of(Share share, const std::vector<at::Tensor>& shards, int64_t stacks) {
  const auto shard_count = static_cast<int64_t>(shards.size());
  std::vector<NodeStack> filled;
  for (int64_t thread = 0; thread < stacks; ++thread) {
    const Range own = part_of(shard_count, share.size * stacks, share.rank * stacks + thread);
    NodeStack& stack = filled.emplace_back(shards[0].numel(), shards[0].scalar_type(), at::kCPU);
    stack.begin(shard_count);
    for (int64_t shard = own.begin; shard < own.end; ++shard) {
      const at::Tensor& vector = shards[static_cast<size_t>(shard)];
      stack.take(single(shard), [&](const at::Tensor& buffer, bool add) {
        add ? buffer.add_(vector) : buffer.copy_(vector);
      });
    }
  }
  return filled;
}

TEST_P(CommunicatorContract, TheTreeHasTheSameBitsForAnyNumberOfRanks) {
  run([](Communicator& comm) {
    for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
      for (const int64_t shard_count : {1, 2, 3, 5, 8, 13}) {
        for (const int64_t count :
             {int64_t{0}, int64_t{1}, int64_t{5000}, shard_count == 5 ? int64_t{300'001} : int64_t{7}}) {
          std::vector<at::Tensor> shards;
          for (int64_t i = 0; i < shard_count; ++i)
            shards.push_back(values_of(i, count, type).mul_(std::pow(10.0, i % 5)));
          const at::Tensor expected =
              fold(shards, 0, shard_count, [](const at::Tensor& a, const at::Tensor& b) { return a + b; });
          for (const int64_t stacks : {1, 3}) {
            std::vector<Node> nodes;
            const std::vector<NodeStack> filled = stacks_of(comm.share(), shards, stacks);
            for (const NodeStack& stack : filled)
              nodes.insert(nodes.end(), stack.nodes().begin(), stack.nodes().end());
            expect(
                at::equal(comm.reduce_tree(nodes, shard_count), expected),
                std::to_string(shard_count) + " shards of " + std::to_string(count) + " add up in the tree");
          }
        }
      }
    }
  });
}

TEST_P(CommunicatorContract, ASumThatIsHeldStays) {
  run([](Communicator& comm) {
    const auto sum_of = [&](float value) {
      std::vector<Node> nodes;
      if (comm.rank() == 0) nodes.push_back({{0, 1}, at::full({100}, value)});
      return comm.reduce_tree(nodes, 1);
    };
    const at::Tensor first = sum_of(1);
    const at::Tensor second = sum_of(2);
    expect(at::equal(first, at::full({100}, 1.0F)) && at::equal(second, at::full({100}, 2.0F)),
           "the second sum is not written over the first");
  });
}

TEST_P(CommunicatorContract, ManyBarriersAndMixedCalls) {
  run([](Communicator& comm) {
    for (int step = 0; step < 500; ++step) {
      comm.barrier();
      const double sum = comm.all_reduce(static_cast<double>(step), Reduction::sum);
      expect(sum == static_cast<double>(step * comm.size()), "no rank is a step behind");
    }
  });
}

TEST_P(CommunicatorContract, AStopEndsTheGroup) {
  const auto texts = failures(GetParam(), [](Communicator& comm) {
    std::stop_source stop;
    if (comm.rank() == 0) stop.request_stop();
    comm.barrier({.timeout = 20s, .stop = stop.get_token()});
  });
  for (const std::string& text : texts) EXPECT_EQ(text, "cancelled: rank 0 was stopped");
}

TEST_P(CommunicatorContract, AFailureEndsTheGroupForGood) {
  const auto texts = failures(GetParam(), [](Communicator& comm) {
    if (comm.rank() == comm.size() - 1) comm.abort(Error(ErrorCode::io, "the disk is gone"));
    const std::string first = text_of_failure([&] { comm.barrier(); });
    expect(text_of_failure([&] { comm.all_reduce(1.0, Reduction::sum); }) == first, "the group stays broken");
    throw std::runtime_error(first);
  });
  for (const std::string& text : texts)
    EXPECT_EQ(text, "cancelled: rank " + std::to_string(GetParam().size - 1) + " failed: the disk is gone");
}

class SeveralRanks : public CommunicatorContract {};
INSTANTIATE_TEST_SUITE_P(Kinds, SeveralRanks,
                         testing::Values(Kind{"threads", false, 3}, Kind{"processes", true, 3}, kJoined,
                                         kGloo),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(SeveralRanks, TimeNamesWhoDidNotCome) {
  const auto texts = failures(GetParam(), [](Communicator& comm) {
    comm.barrier();  // on a busy machine they start at different times
    if (comm.rank() == 1) std::this_thread::sleep_for(5s);
    comm.all_reduce({at::ones({3})}, Reduction::sum, {.timeout = 2s});
  });
  const std::string reason = "rank 1 of 3 did not come to all_reduce within 2 s";
  for (const std::string& text : texts)
    EXPECT_TRUE(text == "timeout: " + reason || text == "cancelled: " + reason) << text;
  EXPECT_TRUE(texts[0].starts_with("timeout") || texts[2].starts_with("timeout"));
}

TEST_P(SeveralRanks, OneThatHasLeftIsNamedWhereItIsMissed) {
  for (const auto delay : {0ms, 200ms}) {  // of the others, and of the one that leaves
    const auto texts = failures(GetParam(), [&](Communicator& comm) {
      comm.barrier();
      std::this_thread::sleep_for(comm.rank() == 1 ? 200ms - delay : delay);
      if (comm.rank() != 1) comm.all_reduce({at::ones({3})}, Reduction::sum);
    });
    EXPECT_EQ(texts[1], "");
    for (const size_t rank : {0, 2})
      EXPECT_THAT(texts[rank],
                  testing::MatchesRegex("(invalid_option|cancelled): rank 1 of 3 has left while rank [02] "
                                        "waits for it in all_reduce"));
  }
}

TEST_P(SeveralRanks, OneThatHasLeftIsNotMissedByRanksThatMakeNoMoreCalls) {
  const auto texts = failures(GetParam(), [](Communicator& comm) {
    comm.barrier();
    std::this_thread::sleep_for(comm.rank() * 100ms);
  });
  for (const std::string& text : texts) EXPECT_EQ(text, "");
}

TEST_P(SeveralRanks, DifferentCallsAreNamed) {
  const auto texts = failures(GetParam(), [](Communicator& comm) {
    if (comm.rank() == 2) comm.barrier();
    comm.all_reduce({at::ones({1200})}, Reduction::sum);
  });
  EXPECT_NE(texts[0].find(
                "rank 2 came with barrier where rank 0 came with all_reduce of 1,200 elements of type Float"),
            std::string::npos)
      << texts[0];
  const auto sizes = failures(GetParam(), [](Communicator& comm) {
    comm.all_reduce({at::ones({3 + comm.rank() / 2})}, Reduction::sum);
  });
  EXPECT_NE(sizes[1].find("rank 2 came with all_reduce of 4 elements"), std::string::npos) << sizes[1];
}

TEST_P(SeveralRanks, AShardOnNoRankOrOnTwoIsNamed) {
  const auto texts = failures(GetParam(), [](Communicator& comm) {
    std::vector<Node> nodes;
    if (comm.rank() < 2) nodes.push_back({{0, 1}, at::ones({3})});
    comm.reduce_tree(nodes, 1);
  });
  EXPECT_NE(texts[2].find("shard 0 of 1 is on 2 ranks, not on one"), std::string::npos) << texts[2];
}

TEST_P(SeveralRanks, AWaitingRankIsStopped) {
  const auto texts = failures(GetParam(), [](Communicator& comm) {
    std::stop_source stop;
    std::jthread later;
    if (comm.rank() == 0)
      later = std::jthread([&] {
        std::this_thread::sleep_for(100ms);
        stop.request_stop();
      });
    if (comm.rank() == 2) std::this_thread::sleep_for(3s);
    comm.barrier({.timeout = 20s, .stop = stop.get_token()});
  });
  for (const std::string& text : texts) EXPECT_EQ(text, "cancelled: rank 0 was stopped");
}

TEST(Communicator, RefusesSumsThatHaveNoMeaning) {
  const auto texts = failures({"threads", false, 2}, [](Communicator& comm) {
    comm.all_reduce({at::ones({2}, at::kLong)}, Reduction::mean);
  });
  EXPECT_EQ(texts[0], "invalid_option: all_reduce cannot make the mean of tensors of type Long");
}

}  // namespace
}  // namespace lockstep::comm
