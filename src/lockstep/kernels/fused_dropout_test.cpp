#include "lockstep/kernels/fused_dropout.h"

#include <gtest/gtest.h>
#include <torch/utils.h>

#include "lockstep/device/random_scope.h"
#include "lockstep/kernels/sample_seeds.h"

namespace lockstep::kernels {
namespace {

at::Tensor drop_seeded(const at::Tensor& input, double probability, uint64_t seed) {
  const device::RandomScope random(at::kCPU, seed);
  return fused_dropout(input, probability);
}

TEST(FusedDropout, KeepsTheAskedShareAndScalesIt) {
  const at::Tensor ones = at::ones({200, 5003});
  for (const double probability : {0.0, 0.2, 0.5, 0.9, 1.0}) {
    const at::Tensor dropped = drop_seeded(ones, probability, 3);
    EXPECT_NEAR(dropped.eq(0).to(at::kDouble).mean().item<double>(), probability, 2e-3);
    if (probability < 1) {
      EXPECT_NEAR(dropped.mean().item<double>(), 1, 1e-2);
    }
  }
  // Rows and columns alike: no pattern runs through the mask.
  const at::Tensor half = drop_seeded(ones, 0.5, 4).eq(0).to(at::kDouble);
  EXPECT_LT((half.mean(0) - 0.5).abs().max().item<double>(), 0.2);
  EXPECT_LT((half.mean(1) - 0.5).abs().max().item<double>(), 0.05);
}

TEST(FusedDropout, RepeatsByTheScopesSeedAlone) {
  const at::Tensor images = at::rand({3, 8, 5, 7}).contiguous(at::MemoryFormat::ChannelsLast);
  EXPECT_TRUE(at::equal(drop_seeded(images, 0.5, 1), drop_seeded(images, 0.5, 1)));
  EXPECT_FALSE(at::equal(drop_seeded(images, 0.5, 1), drop_seeded(images, 0.5, 2)));
  EXPECT_EQ(drop_seeded(images, 0.5, 1).strides(), images.strides());
}

TEST(FusedDropout, ASampleHasTheSameMaskInAnyBatch) {
  const at::Tensor images = at::rand({6, 8, 5, 7}).add(0.5).contiguous(at::MemoryFormat::ChannelsLast);
  const auto drop_from = [&](int64_t begin, int64_t end, uint64_t seed) {
    const SampleSeeds seeds(seed, begin);
    const at::Tensor first = fused_dropout(images.narrow(0, begin, end - begin), 0.5);
    return at::cat({first, fused_dropout(images.narrow(0, begin, end - begin), 0.5)}, 1);
  };
  const at::Tensor whole = drop_from(0, 6, 7);
  EXPECT_TRUE(at::equal(whole, at::cat({drop_from(0, 1, 7), drop_from(1, 4, 7), drop_from(4, 6, 7)})));
  EXPECT_FALSE(at::equal(whole, drop_from(0, 6, 8))) << "another step";
  const auto layers = whole.chunk(2, 1);
  EXPECT_FALSE(at::equal(layers[0], layers[1])) << "another layer";
  EXPECT_FALSE(at::equal(whole[0].eq(0), whole[1].eq(0))) << "another sample";
}

TEST(FusedDropout, BackwardHasTheSameMask) {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    at::Tensor input =
        at::rand({3, 8, 5, 7}).add(0.5).to(type).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
    const at::Tensor output = drop_seeded(input, 0.25, 5);
    output.backward(at::ones({3, 8, 5, 7}, type));
    EXPECT_TRUE(at::equal(input.grad().eq(0), output.eq(0)));
    EXPECT_TRUE(
        at::allclose((input * input.grad()).detach().to(at::kFloat), output.detach().to(at::kFloat), 2e-2));
  }
}

TEST(FusedDropout, OthersAreLeftToTheEngine) {
  EXPECT_FALSE(fits_fused_dropout(at::rand({3, 4}, at::kDouble)));
  EXPECT_FALSE(fits_fused_dropout(at::rand({3, 4}).t()));
  EXPECT_TRUE(fits_fused_dropout(at::rand({3, 4})));
}

}  // namespace
}  // namespace lockstep::kernels
