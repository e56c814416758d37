// Custom loops with fp16-mixed: the scale of the loss, and the steps that are skipped.
#include <cmath>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/train/custom/learnables.h"
#include "lockstep/train/custom/test_loops.h"

namespace lockstep::train {
namespace {

using namespace test;
using ::testing::HasSubstr;

// The result of fp16-mixed: weights, steps, which of them were skipped, and the scale at the end.
using Scaled = std::tuple<uint64_t, int64_t, std::vector<int64_t>, double>;

// With a loss that is so large that the first scales overflow in 16 bits.
template <class Updater>
Scaled train_scaled(pool::Worker& worker) {
  const BuiltModel model = build(worker, net(), halves(90), {.seed = 3, .precision = Precision::fp16_mixed});
  Updater updater(model.parameters());
  std::vector<int64_t> skipped;
  EXPECT_EQ(model.loss_scale(), 65536);
  const data::QueueOptions options{.mini_batch_size = 20, .shards = 5, .order = {.seed = 7}, .epochs = 3};
  const auto loss = [&](const data::Shard& shard) { return loss_of(model)(shard) * 20; };
  for (const auto& batch : data::MiniBatchQueue(halves(90), worker.share(), options)) {
    const double scale = model.loss_scale();
    const uint64_t before = model.hash();
    const MiniBatchSums whole = exchange(worker, loss_and_gradients(model, batch, loss));
    EXPECT_LT(whole.loss, 100) << "the loss itself is not scaled";
    updater.step(whole.gradients);
    EXPECT_EQ(whole.gradients.empty(), whole.skipped);
    EXPECT_EQ(model.loss_scale(), whole.skipped ? scale / 2 : scale);
    if (whole.skipped) skipped.push_back(batch.iteration);
    for (const at::Tensor& gradient : whole.gradients) {
      EXPECT_LT(gradient.abs().max().item<double>(), 1000) << "the scale is out of it";
    }
    EXPECT_NE(before, model.hash()) << "running statistics follow in any case";
  }
  return {model.hash(), updater.steps(), skipped, model.loss_scale()};
}

TEST(CustomLoop, HalfPrecisionScalesTheLossAndSkipsTheSameStepsOnAllRanks) {
  for (const auto& run : {train_scaled<Sgdm>, train_scaled<Adam>}) {
    const Scaled expected = on_workers(1, run);
    const auto& [hash, steps, skipped, scale] = expected;
    EXPECT_EQ(steps, 15);
    EXPECT_FALSE(skipped.empty());
    EXPECT_LT(skipped.size(), 15U);
    EXPECT_EQ(scale, std::ldexp(65536, -static_cast<int>(skipped.size())));
    for (const int64_t workers : {2, 3})
      EXPECT_EQ(on_workers(workers, run), expected) << workers << " workers";
  }
}

TEST(CustomLoop, ALossThatNoScaleHelpsIsAnError) {
  EXPECT_THAT(
      error_on_workers(2,
                       [](pool::Worker& worker) {
                         const BuiltModel model =
                             build(worker, net(), halves(20), {.precision = Precision::fp16_mixed});
                         const auto not_finite = [&](const data::Shard& shard) {
                           return (model.forward(shard.input).to(at::kFloat) * 0).abs().sqrt().sum();
                         };
                         const data::QueueOptions options{.mini_batch_size = 10, .shards = 2, .epochs = 30};
                         for (const auto& batch : data::MiniBatchQueue(halves(20), worker.share(), options)) {
                           exchange(worker, loss_and_gradients(model, batch, not_finite));
                         }
                       }),
      HasSubstr("the gradients of step 41 are not finite, however small the loss is scaled"));
}

}  // namespace
}  // namespace lockstep::train
