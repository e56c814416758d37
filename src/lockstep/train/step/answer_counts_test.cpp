#include "lockstep/train/step/answer_counts.h"

#include <limits>

#include <ATen/Functions.h>
#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

ConfusionMatrix counted_by(const std::vector<AnswerCounts>& workers) {
  return counts_of_all(workers, *comm::make_communicator());
}

TEST(AnswerCounts, CountsByClassAndAnswer) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  // Answers: 2, 0 (of equal ones the first), 1 (a NaN), 0, 2.
  const at::Tensor logits =
      at::tensor({0.F, 1.F, 2.F, 1.F, 1.F, 0.F, 5.F, nan, 0.F, 1.F, 0.F, 0.F, 0.F, 0.F, 1.F}).view({5, 3});
  const at::Tensor target = at::tensor({2, 2, 1, -1, 0}, at::kLong);
  const ConfusionMatrix expected{{0, 0, 1}, {0, 1, 0}, {1, 0, 1}};
  // The second type is counted by LibTorch's operators, as on a GPU.
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    std::vector<AnswerCounts> workers;
    workers.emplace_back(3, at::kCPU);
    workers[0].add(logits.to(type), target);
    EXPECT_EQ(counted_by(workers), expected);
  }
}

TEST(AnswerCounts, TimeStepsAreCountedLikeSamples) {
  const at::Tensor logits = at::rand({4, 3, 6}), target = at::randint(-1, 3, {4, 6}, at::kLong);
  std::vector<AnswerCounts> of_steps, of_rows;
  of_steps.emplace_back(3, at::kCPU);
  of_rows.emplace_back(3, at::kCPU);
  of_steps[0].add(logits, target);
  of_rows[0].add(logits.transpose(1, 2).flatten(0, 1).contiguous(), target.flatten());
  EXPECT_EQ(counted_by(of_steps), counted_by(of_rows));
}

TEST(AnswerCounts, WorkersAreAdded) {
  const at::Tensor logits = at::rand({60, 10}), target = at::randint(10, {60}, at::kLong);
  std::vector<AnswerCounts> one, three;
  one.emplace_back(10, at::kCPU);
  one[0].add(logits, target);
  for (int64_t i = 0; i < 3; ++i) {
    three.emplace_back(10, at::kCPU);
    three.back().add(logits.narrow(0, 20 * i, 20), target.narrow(0, 20 * i, 20));
  }
  EXPECT_EQ(counted_by(three), counted_by(one));
}

TEST(AnswerCounts, AreNoneForANetworkWithOtherOutputs) {
  std::vector<AnswerCounts> workers;
  workers.emplace_back(3, at::kCPU);
  workers[0].add(at::zeros({1, 4}), at::zeros({1}, at::kLong));
  EXPECT_TRUE(counted_by(workers).empty());
}

}  // namespace
}  // namespace lockstep::train
