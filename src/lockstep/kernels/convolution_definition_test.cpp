// The convolution kernels against the definition, for many shapes.
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/kernels/internal/test_convolutions.h"

namespace lockstep::kernels {
namespace {

using namespace test;

/// The slope of sum(gradient * output) along each number of one part of the case. Sums of products are
/// straight lines in each, so any step gives it.
std::vector<double> convolution_slopes(const Case<double>& c, std::vector<double> Case<double>::*part) {
  Case<double> moved = c;
  std::vector<double> result;
  for (double& value : moved.*part) {
    const double here = value;
    const auto loss_at = [&](double place) {
      value = place;
      const std::vector<double> output = Reference<double>(moved).output.value;
      return std::inner_product(output.begin(), output.end(), moved.gradient.begin(), 0.0);
    };
    const double above = loss_at(here + 0.5), below = loss_at(here - 0.5);
    result.push_back(above - below);
    value = here;
  }
  return result;
}

TEST(ConvolutionKernels, TheDefinitionsGradientsAreItsSlopes) {
  for (const ConvolutionShape& shape : {ConvolutionShape{2, 3, 4, 5, 2, 3, 3, 1, 1, false},
                                        ConvolutionShape{1, 2, 5, 4, 3, 3, 2, 0, 1, true, 2, 1}}) {
    const Case<double> c(shape);
    const Reference<double> reference(c);
    EXPECT_THAT(convolution_slopes(c, &Case<double>::input),
                testing::Pointwise(testing::DoubleNear(1e-10), reference.input_gradient.value));
    EXPECT_THAT(convolution_slopes(c, &Case<double>::weight),
                testing::Pointwise(testing::DoubleNear(1e-10), reference.weight_gradient.value));
    EXPECT_THAT(convolution_slopes(c, &Case<double>::bias),
                testing::Pointwise(testing::DoubleNear(1e-10), reference.bias_gradient.value));
  }
}

constexpr double kClose = 4e-6;

/// Tiles of 8 x 8 mix more results, and round worst where most of a tile is empty.
double tolerance_of(const ConvolutionShape& shape) {
  return shape.kernel_height == 5 && method_of(shape) == ConvolutionMethod::winograd ? 4 * kClose : kClose;
}

template <class T>
void check(const ConvolutionShape& shape, double tolerance) {
  constexpr bool kHalf = std::is_same_v<T, BFloat16>;
  const Case<T> c(shape);
  const Reference<T> reference(c);
  for (const auto& [name, kernels] : present_kernels<T>()) {
    const Results<T> results(*kernels, c);
    const std::string what = name + ": " + text(shape);
    reference.output.expect_near(results.output, kHalf ? 4e-3 : tolerance, what + " output");
    reference.input_gradient.expect_near(results.input_gradient, kHalf ? 4e-3 : tolerance,
                                         what + " gradient by input");
    reference.weight_gradient.expect_near(results.weight_gradient, tolerance, what + " gradient by weight");
    reference.bias_gradient.expect_near(results.bias_gradient, kClose, what + " gradient by bias");
  }
}

template <class T>
void check(const ConvolutionShape& shape) {
  check<T>(shape, tolerance_of(shape));
}

TEST(ConvolutionKernels, FollowTheDefinitionForEveryWidth) {
  for (int64_t width = 1; width <= 40; ++width) {
    const int64_t height = 1 + width * 7 % 11;
    check<float>({1, 5, height, width, 9, 3, 3, 1, 1, false});
    check<float>({2, 1, height, width, 20, 1, 1, 0, 0, false});
    check<float>({1, 4, height, width, 6, 5, 5, 4, 3, width % 2 == 0});
  }
}

TEST(ConvolutionKernels, FollowTheDefinitionForManyShapes) {
  for (int64_t padding : {0, 1, 2}) {
    for (int64_t channels : {1, 3, 4, 8, 17, 20, 33}) {
      for (int64_t filters : {1, 4, 16, 20, 50}) {
        check<float>({2, channels, 7, 9, filters, 3, 3, padding, padding, filters % 4 == 0});
        check<float>({1, channels, 6, 5, filters, 5, 5, padding, padding, true});
      }
    }
  }
  check<float>({3, 7, 9, 8, 5, 2, 4, 1, 3, false});
  check<float>({3, 7, 9, 8, 5, 1, 1, 0, 0, true});
  check<float>({1, 16, 3, 3, 32, 3, 3, 0, 0, false});
  check<float>({2, 64, 8, 8, 72, 3, 3, 1, 1, false});
}

TEST(ConvolutionKernels, FollowTheDefinitionWhereFewChannelsAreLeftOfAVector) {
  for (int64_t channels : {4, 17, 18, 19, 20, 21, 24, 28}) {
    for (int64_t filters : {8, 20, 22, 68})
      check<float>({1, channels, 9, 70, filters, 3, 3, 1, 1, channels % 2 == 0});
  }
}

TEST(ConvolutionKernels, FollowTheDefinitionWithKernelsOfOnePlace) {
  for (int64_t channels : {1, 3, 8, 16, 33, 96}) {
    for (int64_t filters : {1, 4, 16, 20, 40, 67}) {
      check<float>({3, channels, 7, 11, filters, 1, 1, 0, 0, filters % 4 == 0});
      check<BFloat16>({2, channels, 13, 5, filters, 1, 1, 0, 0, channels % 2 == 0});
    }
  }
  check<float>({4, 128, 27, 27, 32, 1, 1, 0, 0, false});
  check<float>({70, 33, 1, 1, 70, 1, 1, 0, 0, true});
  check<BFloat16>({5, 16, 21, 23, 96, 1, 1, 0, 0, false});
  check<BFloat16>({3, 90, 19, 20, 33, 1, 1, 0, 0, true});
  check<BFloat16>({1, 321, 7, 7, 207, 1, 1, 0, 0, false});
}

TEST(ConvolutionKernels, FollowTheDefinitionWithKernelsOfOnePlaceAndStrides) {
  for (int64_t channels : {1, 9, 48, 130}) {
    check<BFloat16>({3, channels, 7, 8, 40, 1, 1, 0, 0, false, 2, 2});
    check<BFloat16>({2, channels, 5, 9, 17, 1, 1, 0, 0, true, 1, 3});
  }
}

TEST(ConvolutionKernels, FollowTheDefinitionForTheNetworksThatCount) {
  check<float>({3, 1, 28, 28, 20, 5, 5, 0, 0, false});
  check<float>({3, 20, 24, 24, 20, 3, 3, 1, 1, false});
  check<float>({3, 20, 12, 12, 50, 5, 5, 0, 0, false}, kClose);
}

TEST(ConvolutionKernels, AddTheTilesOfInputGradientsThatOverlap) {
  for (int64_t side = 7; side <= 18; ++side) {
    for (int64_t padding : {0, 1}) {
      check<float>({2, 9, side, side + 3, 12, 5, 5, padding, 0, false});
      check<float>({2, 20, side + 1, side, 33, 3, 3, 0, padding, true});
      check<BFloat16>({2, 9, side, side + 2, 12, 5, 5, padding, padding, false});
    }
  }
  check<float>({24, 40, 14, 13, 48, 5, 5, 0, 0, false});
}

TEST(ConvolutionKernels, FollowTheDefinitionForSmallImagesAndStrides) {
  for (int64_t channels : {1, 3, 8, 9, 17, 64}) {
    for (int64_t filters : {1, 8, 20, 48}) {
      for (int64_t side : {1, 2, 3, 5}) {
        check<float>({channels % 3 + 1, channels, side, side, filters, 3, 3, 1, 1, side == 2});
        check<float>({9, channels, side, side + 1, filters, 3, 3, 1, 1, side == 1, 2, 2});
        check<float>({2, channels, side + 4, side + 3, filters, 4, 2, 0, 1, false, 3, 2});
        check<BFloat16>({channels % 3 + 1, channels, side, side, filters, 3, 3, 1, 1, side == 2});
        check<BFloat16>({9, channels, side, side + 1, filters, 3, 3, 1, 1, side == 1, 2, 2});
      }
      check<BFloat16>({3, channels, 4, 4, filters, 3, 3, 1, 1, channels % 2 == 0});
      check<BFloat16>({2, channels, 4, 3, filters, 5, 5, 2, 2, channels % 2 == 1});
      check<float>({1, channels, 4, 4, filters, 1, 1, 0, 0, true, 2, 2});
    }
  }
  check<float>({2, 3, 18, 17, 64, 7, 7, 3, 3, false, 2, 2});
}

TEST(ConvolutionKernels, FollowTheDefinitionWithAFilterForEachChannel) {
  const auto check_depthwise = [](ConvolutionShape shape) {
    shape.filters = shape.channels;
    shape.depthwise = true;
    check<float>(shape);
    for (const auto& [name, kernels] : present_kernels<BFloat16>()) {
      if (name == "amx") continue;  // the chosen set takes others for these
      const Case<BFloat16> c(shape);
      const Reference<BFloat16> reference(c);
      const Results<BFloat16> results(*kernels, c);
      const std::string what = name + ": " + text(shape);
      reference.output.expect_near(results.output, 4e-3, what + " output");
      reference.input_gradient.expect_near(results.input_gradient, 4e-3, what + " gradient by input");
      reference.weight_gradient.expect_near(results.weight_gradient, kClose, what + " gradient by weight");
    }
  };
  for (int64_t channels : {2, 5, 8, 16, 24, 33, 64, 150}) {
    for (int64_t side : {1, 2, 3, 7}) {
      check_depthwise({2, channels, side, side + 1, 0, 3, 3, 1, 1, false});
      check_depthwise({3, channels, side + 1, side, 0, 3, 3, 1, 1, false, 2, 2});
      check_depthwise({1, channels, side + 4, side + 3, 0, 5, 2, 3, 1, false, 3, 1});
    }
  }
  check_depthwise({2, 72, 9, 14, 0, 5, 5, 2, 2, false});
}

TEST(ConvolutionKernels, TakeHalfPrecision) {
  for (int64_t channels : {1, 3, 8, 20}) {
    check<BFloat16>({2, channels, 9, 10, 20, 3, 3, 1, 1, false});
    check<BFloat16>({1, channels, 11, 8, 16, 5, 5, 0, 0, true});
    check<BFloat16>({1, channels, 5, 8, 7, 1, 1, 0, 0, false});
    check<BFloat16>({3, channels, 2, 2, 20, 3, 3, 1, 1, false});
    check<BFloat16>({3, channels, 5, 4, 16, 3, 3, 1, 1, true, 2, 2});
  }
}

TEST(ConvolutionKernels, TakeHalfPrecisionInGroupsOfImages) {
  check<BFloat16>({3, 64, 62, 60, 40, 3, 3, 1, 1, false});
  check<BFloat16>({40, 20, 24, 24, 20, 3, 3, 1, 1, true});
  check<BFloat16>({5, 40, 16, 16, 36, 1, 1, 0, 0, false});
  check<BFloat16>({70, 33, 1, 1, 70, 1, 1, 0, 0, true});
  check<BFloat16>({19, 48, 2, 2, 64, 3, 3, 1, 1, false});
  check<BFloat16>({3, 265, 7, 8, 257, 3, 3, 1, 1, true});
  check<BFloat16>({2, 3, 75, 76, 96, 7, 7, 0, 0, false, 2, 2});
  check<BFloat16>({9, 40, 8, 9, 48, 3, 3, 1, 1, false, 2, 2});
}

}  // namespace
}  // namespace lockstep::kernels
