#include "lockstep/train/update/exchange.h"

#include <atomic>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/train/step/shard_queue.h"
#include "lockstep/train/update/test_ranks.h"
#include "lockstep/train/update/test_rules.h"

namespace lockstep::train {
namespace {

constexpr int64_t kExchangeShards = 5;

// An exchange whose update subtracts the sum of the gradients from the weights.
struct Summing {
  Summing(comm::ThreadGroup& group, comm::Communicator& comm, const std::vector<int64_t>& layers,
          ExchangeOptions options)
      : weights(test::linear_layers(layers), at::kFloat, at::kCPU),
        optimizer(plain_rule(), weights),
        exchange(group, comm, weights, optimizer, with_way(std::move(options), comm, weights)) {}

  static device::UpdateRule plain_rule() {
    Options options;
    options.momentum = options.weight_decay = 0;
    return test::resolved_rule(options);
  }
  static ExchangeOptions with_way(ExchangeOptions options, comm::Communicator& comm,
                                  const SharedWeights& weights) {
    options.compressor = make_gradient_compressor(ExchangeKind::tree, comm, weights, 1);
    if (!options.agree) options.agree = [] { return false; };
    return options;
  }

  // A worker computes a shard, which is a node. Its gradients come early where they may, or always; then the
  // worker pauses before the first layer's.
  void take(
      Share thread, int64_t shard, const std::vector<at::Tensor>& gradients, bool early = false,
      const std::function<void()>& pause = [] {}) {
    const auto parts = weights.views(gradients[static_cast<size_t>(shard)]);
    if (exchange.may_be_last(single(shard)) || early) {
      exchange.begin_early(thread, single(shard));
      for (size_t i = parts.size(); i-- > 1;) exchange.take_early(thread, i, parts[i]);
    }
    pause();
    exchange.take(thread, single(shard), parts);
  }

  // One worker's part of a step up to the barrier.
  void take(Share thread, Range own, const std::vector<at::Tensor>& gradients) {
    exchange.begin(thread, own.count(), static_cast<int64_t>(gradients.size()));
    for (int64_t shard = own.begin; shard < own.end; ++shard) take(thread, shard, gradients);
  }

  SharedWeights weights;
  Optimizer optimizer;
  Exchange exchange;
};

// Leaves out the padding between parameters.
at::Tensor summed(const SharedWeights& start, const std::vector<at::Tensor>& gradients) {
  const at::Tensor sum = test::tree_sum_of(gradients, 0, static_cast<int64_t>(gradients.size()));
  at::Tensor expected = start.flat().clone();
  const auto parts = start.views(expected), sums = start.views(sum);
  for (size_t i = 0; i < parts.size(); ++i) parts[i].sub_(sums[i]);
  return expected;
}

// One step over ranks and threads, or two steps of which the ranks drop the first. Returns how many ranks
// have other weights than the first weights minus the sum in the tree.
int wrong_after_step(int64_t ranks, int64_t threads, const std::vector<int64_t>& layers, bool overlap,
                     bool drop = false, decltype(test::on_ranks)* on_ranks = test::on_ranks) {
  const SharedWeights start(test::linear_layers(layers), at::kFloat, at::kCPU);
  const auto gradients = test::vectors_of(kExchangeShards, start.element_count(), at::kFloat);
  const at::Tensor expected = summed(start, gradients);
  std::atomic<int> wrong = 0;
  on_ranks(ranks, [&](comm::Communicator& comm) {
    at::set_num_threads(1);
    comm::ThreadGroup group(threads);
    std::atomic<bool> dropped = drop;
    Summing ours(group, comm, layers,
                 {.compressor = nullptr, .overlap = overlap, .agree = [&] { return dropped.load(); }});
    wrong += overlap && ranks > 1 && !ours.exchange.overlaps();
    group.run([&](Share thread) {
      at::set_num_threads(1);
      const Range own =
          Deal{ranks, ranks * threads}.of_worker(kExchangeShards, comm.rank() * threads + thread.rank);
      if (drop) {
        ours.take(thread, own, gradients);
        group.barrier([&] { ours.exchange.synchronize(kExchangeShards); });
        group.barrier([&] { dropped = false; });
      }
      ours.take(thread, own, gradients);
      group.barrier([&] { ours.exchange.synchronize(kExchangeShards); });
      ours.exchange.step(thread, kExchangeShards, ours.optimizer.rule_at(0, 1));
    });
    wrong += !at::equal(ours.weights.flat(), expected);
  });
  return wrong;
}

TEST(Exchange, TheSumIsTheTreesForAnyRanksAndThreads) {
  for (const int64_t ranks : {1, 2, 3}) {
    for (const int64_t threads : {1, 2, 4})
      EXPECT_EQ(wrong_after_step(ranks, threads, {70, 90, 10}, false), 0) << ranks << " of " << threads;
  }
}

// Layers that are larger than the largest bucket, so that there are several buckets.
const std::vector<int64_t> kLargeLayers{1100, 1000, 1100};

TEST(Exchange, BesideBackwardItIsTheSame) {
  EXPECT_EQ(wrong_after_step(2, 2, kLargeLayers, true), 0);
  EXPECT_EQ(wrong_after_step(3, 1, kLargeLayers, true), 0);
}

TEST(Exchange, BesideBackwardItIsTheSameOverLinksBetweenGpus) {
  for (const int64_t ranks : {1, 2, 4}) {
    for (const bool overlap : {false, true})
      EXPECT_EQ(wrong_after_step(ranks, 1, kLargeLayers, overlap, /*drop=*/false, test::on_linked_ranks), 0)
          << ranks << " ranks, overlap " << overlap;
  }
}

// Every rank's first worker stands still in its first shard until the second one has computed all others of
// the rank. Returns as wrong_after_step.
int wrong_after_takeover(bool early) {
  constexpr int64_t kRanks = 2, kWorkers = 2, kShards = 8;
  const SharedWeights start(test::linear_layers(kLargeLayers), at::kFloat, at::kCPU);
  const auto gradients = test::vectors_of(kShards, start.element_count(), at::kFloat);
  const at::Tensor expected = summed(start, gradients);
  std::atomic<int> wrong = 0;
  test::on_ranks(kRanks, [&](comm::Communicator& comm) {
    comm::ThreadGroup group(kWorkers);
    Summing ours(group, comm, kLargeLayers, {});
    wrong += !ours.exchange.overlaps();
    ShardQueue queue(kWorkers);
    std::atomic<int64_t> of_fast = 0;
    group.run([&](Share thread) {
      at::set_num_threads(1);
      const Range own =
          Deal{kRanks, kRanks * kWorkers}.of_worker(kShards, comm.rank() * kWorkers + thread.rank);
      std::vector<data::Shard> shards;
      for (int64_t index = own.begin; index < own.end; ++index)
        shards.push_back({.index = index, .count = 1});
      queue.offer(thread.rank, shards);
      ours.exchange.begin(thread, own.count(), kShards);
      const auto next = [&] { return queue.take(thread.rank, 1, {kShards}); };
      if (thread.rank == 0) shards = next();
      group.barrier();
      if (thread.rank == 0) {
        ours.take(thread, shards.front().index, gradients, early, [&] {
          for (int64_t done = of_fast; done < kShards / kRanks - 1; done = of_fast) of_fast.wait(done);
        });
        wrong += !next().empty();
      } else {
        for (shards = next(); !shards.empty(); shards = next()) {
          ours.take(thread, shards.front().index, gradients);
          ++of_fast;
          of_fast.notify_all();
        }
      }
      group.barrier([&] { ours.exchange.synchronize(kShards); });
      ours.exchange.step(thread, kShards, ours.optimizer.rule_at(0, 1));
    });
    wrong += !at::equal(ours.weights.flat(), expected);
  });
  return wrong;
}

TEST(Exchange, AWorkerTakesOverShardsOfASlowOneBesideTheExchange) {
  EXPECT_EQ(wrong_after_takeover(/*early=*/false), 0);
  EXPECT_EQ(wrong_after_takeover(/*early=*/true), 0);
}

TEST(Exchange, AStepThatTheRanksDropIsTakenAgain) {
  EXPECT_EQ(wrong_after_step(2, 2, {70, 90, 10}, false, /*drop=*/true), 0);
  EXPECT_EQ(wrong_after_step(2, 1, kLargeLayers, true, /*drop=*/true), 0);
}

TEST(Exchange, GradientsThatAreUndefinedAreZeros) {
  const auto comm = comm::make_communicator();
  comm::ThreadGroup group(1);
  Summing ours(group, *comm, {3, 2}, {});
  const at::Tensor start = ours.weights.flat().clone();
  ours.exchange.begin({}, 1, 1);
  ours.exchange.take({}, single(0), {at::Tensor(), at::ones({2})});
  ours.exchange.synchronize(1);
  ours.exchange.step({}, 1, ours.optimizer.rule_at(0, 1));
  const auto moved = ours.weights.views(start - ours.weights.flat());
  EXPECT_TRUE(at::equal(moved[0], at::zeros({2, 3})));
  EXPECT_TRUE(at::allclose(moved[1], at::ones({2})));
}

TEST(Exchange, AGradientThatComesTwiceIsNamed) {
  std::atomic<int> named = 0;
  test::on_ranks(2, [&](comm::Communicator& comm) {
    comm::ThreadGroup group(1);
    Summing ours(group, comm, kLargeLayers, {});
    const at::Tensor gradient = at::zeros({1100});
    ours.exchange.begin({}, 1, 2);
    if (!ours.exchange.may_be_last(single(comm.rank()))) return;
    ours.exchange.begin_early({}, single(comm.rank()));
    ours.exchange.take_early({}, 3, gradient);
    try {
      ours.exchange.take_early({}, 3, gradient);
    } catch (const Error& error) {
      named += error.message().find("\"1.bias\"") != std::string::npos;
    }
  });
  EXPECT_EQ(named, 2);
}

}  // namespace
}  // namespace lockstep::train
