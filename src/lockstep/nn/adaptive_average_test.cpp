#include "lockstep/nn/layers/adaptive_average.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace lockstep::nn {
namespace {

// What a GPU computes, on a CPU, against LibTorch's operator.
TEST(AdaptiveAverage, HasTheWindowsOfLibTorch) {
  for (const Pair from : {Pair{2, 2}, {7, 7}, {14, 21}, {13, 9}, {6, 13}, {1, 3}}) {
    for (const Pair to : {Pair{7, 7}, {6, 6}, {1, 2}, {3, 5}}) {
      at::Tensor images = at::randn({2, 3, from.height, from.width}, at::kDouble).requires_grad_();
      at::Tensor same = images.detach().clone().requires_grad_();
      const at::Tensor ours = repeatable_adaptive_average(images, to),
                       expected = at::adaptive_avg_pool2d(same, {to.height, to.width});
      ASSERT_EQ(ours.sizes(), expected.sizes());
      EXPECT_TRUE(at::allclose(ours, expected, 1e-12, 1e-12));
      const at::Tensor gradient = at::randn_like(expected);
      ours.backward(gradient);
      expected.backward(gradient);
      EXPECT_TRUE(at::allclose(images.grad(), same.grad(), 1e-12, 1e-12))
          << from.height << "x" << from.width << " to " << to.height << "x" << to.width;
    }
  }
}

}  // namespace
}  // namespace lockstep::nn
