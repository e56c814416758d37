#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "lockstep/kernels/convolution_kernels.h"
#include "lockstep/kernels/internal/kernel_table.h"

namespace lockstep::kernels {

LOCKSTEP_DECLARE_KERNELS(ConvolutionKernels, convolution_kernels)
const ConvolutionKernels<BFloat16>& amx_convolution_kernels();

namespace {

template <class T>
struct NamedKernels {
  std::string name;
  const ConvolutionKernels<T>* kernels;
};

template <class T>
std::vector<NamedKernels<T>> present_kernels() {
  std::vector<NamedKernels<T>> result{{"plain", &plain_convolution_kernels(T{})}};
  if (device::vector_unit() >= device::VectorUnit::avx2)
    result.push_back({"avx2", &avx2_convolution_kernels(T{})});
  if (device::vector_unit() >= device::VectorUnit::avx512)
    result.push_back({"avx512", &avx512_convolution_kernels(T{})});
  if constexpr (std::is_same_v<T, BFloat16>) {
    if (device::has_matrix_unit()) result.push_back({"amx", &amx_convolution_kernels()});
    result.push_back({"chosen", &convolution_kernels<T>()});
  }
  return result;
}

// These tell of sets that all tests of kernels leave out here; scripts/test lists what was skipped.
TEST(InstructionSets, Avx2IsTested) {
  if (device::vector_unit() < device::VectorUnit::avx2)
    GTEST_SKIP()
        << "kernels for AVX2 were not run: this processor has none, or ATEN_CPU_CAPABILITY forbids it";
}

TEST(InstructionSets, Avx512IsTested) {
  if (device::vector_unit() < device::VectorUnit::avx512)
    GTEST_SKIP()
        << "kernels for AVX-512 were not run: this processor has none, or ATEN_CPU_CAPABILITY forbids it";
}

TEST(InstructionSets, Avx512Bf16IsTested) {
  if (!device::rounds_to_bfloat16())
    GTEST_SKIP() << "batch norms for AVX512_BF16 were not run: this processor has none, or "
                    "ATEN_CPU_CAPABILITY forbids it";
}

TEST(InstructionSets, AmxIsTested) {
  if (!device::has_matrix_unit())
    GTEST_SKIP() << "kernels for AMX were not run: this processor has none, or the system or "
                    "ONEDNN_MAX_CPU_ISA forbids it";
}

double value_of(double value) { return value; }
float value_of(float value) { return value; }
float value_of(BFloat16 value) {
  const uint32_t bits = static_cast<uint32_t>(value.bits) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}
void assign(float value, double& target) { target = value; }
void assign(float value, float& target) { target = value; }
void assign(float value, BFloat16& target) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  target.bits = static_cast<uint16_t>(bits >> 16);
}

template <class T>
std::vector<T> random_values(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> distribution(-1.0F, 1.0F);
  std::vector<T> result(static_cast<size_t>(count));
  for (T& value : result) assign(distribution(generator), value);
  return result;
}

std::string text(const ConvolutionShape& s) {
  std::string result;
  for (int64_t part : {s.batch, s.channels, s.height, s.width, s.filters, s.kernel_height, s.kernel_width,
                       s.padding_height, s.padding_width, s.stride_height, s.stride_width}) {
    result += std::to_string(part) + " ";
  }
  return result + (s.weight_channels_last ? "channels last" : "");
}

int64_t input_size(const ConvolutionShape& s) { return s.batch * s.height * s.width * s.channels; }
int64_t output_size(const ConvolutionShape& s) {
  return s.batch * s.output_height() * s.output_width() * s.filters;
}
int64_t weight_size(const ConvolutionShape& s) {
  return s.filters * s.channels * s.kernel_height * s.kernel_width;
}

template <class T>
std::vector<float> values_of(const std::vector<T>& numbers) {
  std::vector<float> result;
  for (const T& number : numbers) result.push_back(value_of(number));
  return result;
}

/// Calls visit(place in the output, in the input, in the weight) for each product of the definition.
template <class Visit>
void each_product(const ConvolutionShape& s, Visit&& visit) {
  const int64_t taps = s.kernel_height * s.kernel_width;
  for (int64_t n = 0; n < s.batch; ++n)
    for (int64_t y = 0; y < s.output_height(); ++y)
      for (int64_t x = 0; x < s.output_width(); ++x)
        for (int64_t ky = 0; ky < s.kernel_height; ++ky)
          for (int64_t kx = 0; kx < s.kernel_width; ++kx) {
            const int64_t row = y * s.stride_height + ky - s.padding_height;
            const int64_t column = x * s.stride_width + kx - s.padding_width;
            if (row < 0 || row >= s.height || column < 0 || column >= s.width) continue;
            const int64_t output = ((n * s.output_height() + y) * s.output_width() + x) * s.filters;
            const int64_t input = ((n * s.height + row) * s.width + column) * s.channels;
            const int64_t tap = ky * s.kernel_width + kx;
            for (int64_t k = 0; k < s.filters; ++k)
              for (int64_t c = 0; c < s.channels; ++c) {
                visit(output + k, input + c,
                      s.weight_channels_last ? (k * taps + tap) * s.channels + c
                                             : (k * s.channels + c) * taps + tap);
              }
          }
}

/// Sums in double, and the sums of the magnitudes of what was added.
struct Sums {
  std::vector<double> value, magnitude;

  explicit Sums(int64_t count) : value(static_cast<size_t>(count)), magnitude(static_cast<size_t>(count)) {}
  void add(int64_t place, double term) {
    value[static_cast<size_t>(place)] += term;
    magnitude[static_cast<size_t>(place)] += std::abs(term);
  }
  /// Winograd's algorithm mixes neighbouring results, so an error may be as large as the largest magnitude
  /// allows.
  template <class T>
  void expect_near(const std::vector<T>& ours, double tolerance, const std::string& what) const {
    double largest = 1e-30, difference = 0;
    for (size_t i = 0; i < value.size(); ++i) {
      largest = std::max(largest, magnitude[i]);
      difference = std::max(difference,
                            std::isfinite(value_of(ours[i])) ? std::abs(value_of(ours[i]) - value[i]) : 1e30);
    }
    EXPECT_LE(difference / largest, tolerance) << what;
  }
};

template <class T>
struct Case {
  ConvolutionShape shape;
  std::vector<T> input, weight, bias, gradient;

  explicit Case(const ConvolutionShape& s)
      : shape(s),
        input(random_values<T>(input_size(s), 1)),
        weight(random_values<T>(weight_size(s), 2)),
        bias(random_values<T>(s.filters, 3)),
        gradient(random_values<T>(output_size(s), 4)) {}
};

template <class T>
struct Reference {
  Sums output, input_gradient, weight_gradient, bias_gradient;

  explicit Reference(const Case<T>& c)
      : output(output_size(c.shape)),
        input_gradient(input_size(c.shape)),
        weight_gradient(weight_size(c.shape)),
        bias_gradient(c.shape.filters) {
    each_product(c.shape, [&](int64_t y, int64_t x, int64_t w) {
      const double from = value_of(c.input[static_cast<size_t>(x)]),
                   factor = value_of(c.weight[static_cast<size_t>(w)]);
      const double back = value_of(c.gradient[static_cast<size_t>(y)]);
      output.add(y, from * factor);
      input_gradient.add(x, back * factor);
      weight_gradient.add(w, back * from);
    });
    for (int64_t i = 0; i < output_size(c.shape); ++i) {
      output.add(i, value_of(c.bias[static_cast<size_t>(i % c.shape.filters)]));
      bias_gradient.add(i % c.shape.filters, value_of(c.gradient[static_cast<size_t>(i)]));
    }
  }
};

template <class T>
struct Results {
  std::vector<T> output, input_gradient;
  std::vector<float> weight_gradient, bias_gradient;

  Results(const ConvolutionKernels<T>& kernels, const Case<T>& c)
      : output(static_cast<size_t>(output_size(c.shape))),
        input_gradient(static_cast<size_t>(input_size(c.shape))),
        weight_gradient(static_cast<size_t>(weight_size(c.shape))),
        bias_gradient(static_cast<size_t>(c.shape.filters)) {
    kernels.forward(c.shape, c.input.data(), c.weight.data(), c.bias.data(),
                    {output.data(), c.shape.filters});
    kernels.input_gradient(c.shape, c.gradient.data(), c.weight.data(), input_gradient.data());
    kernels.weight_gradient(c.shape, c.gradient.data(), c.input.data(), weight_gradient.data(),
                            bias_gradient.data());
  }
};

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
      }
      check<float>({1, channels, 4, 4, filters, 1, 1, 0, 0, true, 2, 2});
    }
  }
  check<float>({2, 3, 18, 17, 64, 7, 7, 3, 3, false, 2, 2});
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
  check<BFloat16>({2, 3, 75, 76, 96, 7, 7, 0, 0, false, 2, 2});
  check<BFloat16>({9, 40, 8, 9, 48, 3, 3, 1, 1, false, 2, 2});
}

TEST(ConvolutionKernels, AreWorthwhileWhereTheyWereFaster) {
  EXPECT_TRUE(is_worthwhile<float>({16, 1, 28, 28, 20, 5, 5, 0, 0, false}));
  EXPECT_TRUE(is_worthwhile<float>({16, 20, 24, 24, 20, 3, 3, 1, 1, false}));
  EXPECT_TRUE(is_worthwhile<BFloat16>({16, 20, 24, 24, 20, 3, 3, 1, 1, false}));
  EXPECT_FALSE(is_worthwhile<float>({16, 64, 32, 32, 64, 1, 1, 0, 0, false}));
  EXPECT_FALSE(is_worthwhile<float>({1, 512, 4, 4, 512, 3, 3, 1, 1, false}));
  EXPECT_TRUE(is_worthwhile<BFloat16>({16, 512, 1, 1, 512, 3, 3, 1, 1, false}));
  EXPECT_EQ(is_worthwhile<BFloat16>({16, 64, 32, 32, 64, 1, 1, 0, 0, false}), device::has_matrix_unit());
}

TEST(ConvolutionKernels, BitsDependNeitherOnEarlierCallsNorOnThreads) {
  const Case<float> large({2, 33, 20, 21, 40, 3, 3, 1, 1, false});
  for (const ConvolutionShape& shape : {ConvolutionShape{2, 20, 11, 13, 9, 3, 3, 1, 1, false},
                                        ConvolutionShape{2, 1, 11, 13, 9, 5, 5, 0, 0, false}}) {
    const Case<float> c(shape);
    for (const auto& [name, kernels] : present_kernels<float>()) {
      const Results<float> first(*kernels, c);
      Results<float>(*kernels, large);
      const Results<float> again(*kernels, c);
      std::vector<float> elsewhere;
      std::thread([&, &set = *kernels] { elsewhere = Results<float>(set, c).output; }).join();
      EXPECT_EQ(first.output, again.output) << name;
      EXPECT_EQ(first.output, elsewhere) << name;
      EXPECT_EQ(first.input_gradient, again.input_gradient) << name;
      EXPECT_EQ(first.weight_gradient, again.weight_gradient) << name;
      EXPECT_EQ(first.bias_gradient, again.bias_gradient) << name;
    }
  }
}

template <class T>
void expect_part_of_wider_images(const ConvolutionShape& shape) {
  const Case<T> c(shape);
  const int64_t step = shape.filters + 7, begin = 3, places = output_size(shape) / shape.filters;
  for (const auto& [name, kernels] : present_kernels<T>()) {
    std::vector<float> expected =
        values_of(std::vector<T>(static_cast<size_t>(places * step), c.bias.front()));
    const std::vector<float> alone = values_of(Results<T>(*kernels, c).output);
    for (int64_t i = 0; i < output_size(shape); ++i)
      expected[static_cast<size_t>(i / shape.filters * step + begin + i % shape.filters)] =
          std::max(0.0F, alone[static_cast<size_t>(i)]);
    std::vector<T> wide(static_cast<size_t>(places * step), c.bias.front());
    kernels->forward(shape, c.input.data(), c.weight.data(), c.bias.data(),
                     {wide.data() + begin, step, /*relu=*/true});
    EXPECT_EQ(values_of(wide), expected) << name << ": " << text(shape);
  }
}

TEST(ConvolutionKernels, WriteTheirReLUIntoWiderImagesAndNothingElse) {
  for (const ConvolutionShape& shape : {ConvolutionShape{2, 20, 11, 13, 9, 3, 3, 1, 1, false},
                                        ConvolutionShape{2, 8, 9, 9, 40, 5, 5, 2, 2, false},
                                        ConvolutionShape{3, 16, 7, 5, 64, 1, 1, 0, 0, false},
                                        ConvolutionShape{2, 1, 9, 8, 20, 5, 5, 0, 0, false},
                                        ConvolutionShape{9, 24, 3, 2, 33, 3, 3, 1, 1, true},
                                        ConvolutionShape{5, 16, 9, 9, 24, 3, 3, 1, 1, false, 2, 2}}) {
    expect_part_of_wider_images<float>(shape);
    expect_part_of_wider_images<BFloat16>(shape);
  }
}

template <class T>
void expect_same_bits_with_avx2_and_avx512(const ConvolutionShape& shape) {
  const Case<T> c(shape);
  const Results<T> narrow(avx2_convolution_kernels(T{}), c), wide(avx512_convolution_kernels(T{}), c);
  EXPECT_EQ(values_of(narrow.output), values_of(wide.output)) << text(shape);
  EXPECT_EQ(values_of(narrow.input_gradient), values_of(wide.input_gradient)) << text(shape);
  EXPECT_EQ(narrow.weight_gradient, wide.weight_gradient) << text(shape);
  EXPECT_EQ(narrow.bias_gradient, wide.bias_gradient) << text(shape);
}

TEST(ConvolutionKernels, GiveTheSameBitsWithEverySetThatFusesMultiplyAdds) {
  if (device::vector_unit() < device::VectorUnit::avx512)
    GTEST_SKIP() << "without AVX-512 there is one such set";
  for (const ConvolutionShape& shape : {ConvolutionShape{3, 20, 24, 24, 20, 3, 3, 1, 1, false},
                                        ConvolutionShape{2, 16, 9, 13, 48, 5, 5, 0, 0, false},
                                        ConvolutionShape{9, 20, 12, 12, 50, 5, 5, 0, 0, false},
                                        ConvolutionShape{2, 1, 11, 13, 9, 5, 5, 0, 0, false},
                                        ConvolutionShape{2, 64, 10, 10, 64, 3, 3, 1, 1, true},
                                        ConvolutionShape{2, 40, 13, 12, 72, 1, 1, 0, 0, true},
                                        ConvolutionShape{3, 80, 9, 9, 20, 1, 1, 0, 0, false},
                                        ConvolutionShape{9, 64, 2, 2, 72, 3, 3, 1, 1, false}}) {
    expect_same_bits_with_avx2_and_avx512<float>(shape);
    expect_same_bits_with_avx2_and_avx512<BFloat16>(shape);
  }
}

}  // namespace
}  // namespace lockstep::kernels
