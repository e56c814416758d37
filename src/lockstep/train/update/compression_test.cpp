#include "lockstep/train/update/compression.h"

#include <mutex>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "lockstep/train/update/test_ranks.h"

namespace lockstep::train {
namespace {

constexpr int64_t kCompressedShards = 6;

// The kind of exchange and the gradients of each step, one vector for each shard.
struct Exchanged {
  ExchangeKind kind;
  int64_t power_rank = 1;
  int64_t ranks = 2;
  int64_t threads = 1;
  std::vector<std::vector<at::Tensor>> steps = {};
};

SharedWeights compressed_weights(at::ScalarType type) {
  return {test::linear_layers({12, 9, 4}), type, at::kCPU};
}

// The sum of each step; the same on all ranks.
std::vector<at::Tensor> sums_of(const Exchanged& what) {
  std::mutex mutex;
  std::vector<std::vector<at::Tensor>> sums(static_cast<size_t>(what.ranks));
  const at::ScalarType type = what.steps.front().front().scalar_type();
  std::vector<SharedWeights> weights;
  for (int64_t rank = 0; rank < what.ranks; ++rank) weights.push_back(compressed_weights(type));
  test::on_ranks(what.ranks, [&](comm::Communicator& comm) {
    at::set_num_threads(1);
    const auto way =
        make_gradient_compressor(what.kind, comm, weights[static_cast<size_t>(comm.rank())], what.power_rank);
    for (const auto& gradients : what.steps) {
      const auto stacks = test::stacks_of(gradients, comm.share(), what.threads);
      const at::Tensor sum =
          comm::finish_whole(way->exchange(test::nodes_of(stacks), kCompressedShards), kCompressedShards);
      const std::lock_guard lock(mutex);
      sums[static_cast<size_t>(comm.rank())].push_back(sum.clone());
    }
  });
  for (const auto& of_rank : sums) {
    for (size_t step = 0; step < of_rank.size(); ++step)
      EXPECT_TRUE(at::equal(of_rank[step], sums.front()[step])) << "step " << step;
  }
  return sums.front();
}

// Zero where there is padding, as gradients are.
std::vector<at::Tensor> compressed_gradients(at::ScalarType type, uint64_t seed = 2) {
  const SharedWeights weights = compressed_weights(type);
  std::vector<at::Tensor> padded;
  for (const at::Tensor& vector : test::vectors_of(kCompressedShards, weights.element_count(), type, seed)) {
    padded.push_back(at::zeros_like(vector));
    const auto to = weights.views(padded.back()), from = weights.views(vector);
    for (size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
  }
  return padded;
}

TEST(GradientCompressor, TheTreeLosesNothing) {
  const auto gradients = compressed_gradients(at::kFloat);
  const at::Tensor expected = test::tree_sum_of(gradients, 0, kCompressedShards);
  for (const int64_t ranks : {1, 2, 3})
    EXPECT_TRUE(
        at::equal(sums_of({.kind = ExchangeKind::tree, .ranks = ranks, .steps = {gradients}})[0], expected));
}

// Each rank's sum is rounded, the ranks' are added in 32 bits, and the sum is rounded again.
TEST(GradientCompressor, SixteenBitsRoundEachRanksSumAndTheWhole) {
  const auto gradients = compressed_gradients(at::kFloat);
  for (const auto& [kind, type] :
       {std::pair{ExchangeKind::bf16, at::kBFloat16}, std::pair{ExchangeKind::fp16, at::kHalf}}) {
    const auto rounded = [type = type](const at::Tensor& values) { return values.to(type).to(at::kFloat); };
    const at::Tensor two =
        rounded(rounded(test::tree_sum_of(gradients, 0, 3)) + rounded(test::tree_sum_of(gradients, 3, 6)));
    const at::Tensor one = rounded(test::tree_sum_of(gradients, 0, 6));
    EXPECT_TRUE(at::equal(sums_of({.kind = kind, .ranks = 2, .steps = {gradients}})[0], two));
    EXPECT_TRUE(at::equal(sums_of({.kind = kind, .ranks = 1, .steps = {gradients}})[0], one));
    EXPECT_FALSE(at::equal(two, test::tree_sum_of(gradients, 0, 6)));
  }
}

TEST(GradientCompressor, TheThreadsOfARankChangeNoBit) {
  for (const ExchangeKind kind : {ExchangeKind::bf16, ExchangeKind::fp16, ExchangeKind::powersgd}) {
    for (const int64_t ranks : {2, 3}) {
      Exchanged what{.kind = kind, .ranks = ranks};
      for (uint64_t seed = 2; seed < 5; ++seed) what.steps.push_back(compressed_gradients(at::kFloat, seed));
      const auto expected = sums_of(what);
      for (const int64_t threads : {2, 3}) {
        what.threads = threads;
        const auto sums = sums_of(what);
        for (size_t step = 0; step < sums.size(); ++step) EXPECT_TRUE(at::equal(sums[step], expected[step]));
      }
    }
  }
}

// Vogels et al., arXiv:1905.13727, algorithm 1: with M the sum over the ranks and P the orthonormal M Q, the
// result is P P' M. So the error is orthogonal to the result, which has rank 1 here.
TEST(GradientCompressor, PowerSgdGivesAProjectionOfTheSum) {
  const SharedWeights weights = compressed_weights(at::kDouble);
  const auto gradients = compressed_gradients(at::kDouble);
  const auto whole = weights.views(test::tree_sum_of(gradients, 0, kCompressedShards));
  const at::Tensor sum = sums_of({.kind = ExchangeKind::powersgd, .ranks = 3, .steps = {gradients}})[0];
  const auto arrived = weights.views(sum);
  for (size_t i = 0; i < arrived.size(); ++i) {
    if (arrived[i].dim() < 2) {
      EXPECT_TRUE(at::allclose(arrived[i], whole[i], 0, 1e-12)) << "vectors travel whole";
      continue;
    }
    const auto values = at::linalg_svdvals(arrived[i]);
    EXPECT_GT(values[0].item<double>(), 0.1);
    EXPECT_LT(values[1].item<double>(), 1e-12);
    EXPECT_LT(arrived[i].t().mm(whole[i] - arrived[i]).abs().max().item<double>(), 1e-11);
  }
}

TEST(GradientCompressor, PowerSgdLosesNothingOfAMatrixOfItsRank) {
  const SharedWeights weights = compressed_weights(at::kDouble);
  auto gradients = compressed_gradients(at::kDouble);
  // The first weight's rows of all shards are multiples of the same two.
  const at::Tensor rows = at::randn({2, 12}, at::kDouble);
  for (const at::Tensor& gradient : gradients)
    weights.views(gradient)[0].copy_(at::randn({9, 2}, at::kDouble).mm(rows));
  const at::Tensor sum = sums_of({.kind = ExchangeKind::powersgd, .power_rank = 2, .steps = {gradients}})[0];
  EXPECT_TRUE(at::allclose(weights.views(sum)[0],
                           weights.views(test::tree_sum_of(gradients, 0, kCompressedShards))[0], 0, 1e-11));
}

// Error feedback: without new gradients, the errors of the first step are sent in the steps after it.
TEST(GradientCompressor, PowerSgdSendsLaterWhatItLeavesOut) {
  const SharedWeights weights = compressed_weights(at::kDouble);
  const auto gradients = compressed_gradients(at::kDouble);
  const std::vector<at::Tensor> none(kCompressedShards, at::zeros_like(gradients.front()));
  Exchanged what{.kind = ExchangeKind::powersgd, .steps = {gradients}};
  what.steps.resize(20, none);
  const auto sums = sums_of(what);
  const auto whole = weights.views(test::tree_sum_of(gradients, 0, kCompressedShards));
  at::Tensor arrived = at::zeros_like(sums.front());
  std::vector<double> missing;
  for (const at::Tensor& sum : sums) {
    arrived += sum;
    missing.push_back((weights.views(arrived)[0] - whole[0]).norm().item<double>());
  }
  EXPECT_GT(missing.front(), 0.1);
  EXPECT_LT(missing.back(), 1e-6 * missing.front());
  EXPECT_TRUE(at::allclose(weights.views(arrived)[1], whole[1], 0, 1e-12)) << "vectors come once";
}

}  // namespace
}  // namespace lockstep::train
