// The bits of the convolution kernels, where they write, and where they are chosen.
#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/device/isa.h"
#include "lockstep/kernels/internal/test_convolutions.h"

namespace lockstep::kernels {
namespace {

using namespace test;

TEST(ConvolutionKernels, AreWorthwhileWhereTheyWereFaster) {
  EXPECT_TRUE(is_worthwhile<float>({16, 1, 28, 28, 20, 5, 5, 0, 0, false}));
  EXPECT_TRUE(is_worthwhile<float>({16, 20, 24, 24, 20, 3, 3, 1, 1, false}));
  EXPECT_TRUE(is_worthwhile<BFloat16>({16, 20, 24, 24, 20, 3, 3, 1, 1, false}));
  EXPECT_TRUE(is_worthwhile<float>({16, 64, 32, 32, 64, 1, 1, 0, 0, false}));
  EXPECT_TRUE(is_worthwhile<float>({4, 512, 4, 4, 512, 3, 3, 1, 1, false}));
  EXPECT_FALSE(is_worthwhile<float>({1, 512, 4, 4, 512, 3, 3, 1, 1, false}));
  EXPECT_TRUE(is_worthwhile<BFloat16>({16, 512, 1, 1, 512, 3, 3, 1, 1, false}));
  EXPECT_TRUE(is_worthwhile<BFloat16>({4, 512, 2, 2, 2048, 1, 1, 0, 0, false}));
  EXPECT_TRUE(is_worthwhile<BFloat16>({4, 512, 4, 4, 512, 3, 3, 1, 1, false}));
  EXPECT_TRUE(is_worthwhile<BFloat16>({4, 3, 64, 64, 64, 3, 3, 1, 1, false}));
  EXPECT_EQ(is_worthwhile<BFloat16>({16, 64, 32, 32, 64, 1, 1, 0, 0, false}), device::rounds_to_bfloat16());
}

TEST(ConvolutionKernels, BitsDependNeitherOnEarlierCallsNorOnThreads) {
  const Case<float> large({2, 33, 20, 21, 40, 3, 3, 1, 1, false});
  for (const ConvolutionShape& shape : {ConvolutionShape{2, 20, 11, 13, 9, 3, 3, 1, 1, false},
                                        ConvolutionShape{2, 1, 11, 13, 9, 5, 5, 0, 0, false}}) {
    const Case<float> c(shape);
    for (const auto& [name, kernels] : present_kernels<float>()) {
      const Results<float> first(*kernels, c);
      [[maybe_unused]] const Results<float> between(*kernels, large);
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

/// Of the images [first, first + images.batch) of a case.
template <class T>
void expect_same_bits_as_alone(const ConvolutionShape& images, const Case<T>& c, int64_t first) {
  Case<T> alone = c;
  alone.shape = images;
  const auto part_of = [&](const std::vector<T>& all, int64_t size) {
    const auto begin = all.begin() + size / images.batch * first;
    return std::vector<T>(begin, begin + size);
  };
  alone.input = part_of(c.input, input_size(images));
  alone.gradient = part_of(c.gradient, output_size(images));
  for (const auto& [name, kernels] : present_kernels<T>()) {
    const Results<T> together(*kernels, c), part(*kernels, alone);
    const std::string what = name + ": image " + std::to_string(first) + " of " + text(c.shape);
    EXPECT_EQ(values_of(part.output), values_of(part_of(together.output, output_size(images)))) << what;
    EXPECT_EQ(values_of(part.input_gradient), values_of(part_of(together.input_gradient, input_size(images))))
        << what;
  }
}

TEST(ConvolutionKernels, GiveAnImageTheSameBitsInAnyBatch) {
  for (const ConvolutionShape& one : {ConvolutionShape{1, 20, 12, 12, 20, 3, 3, 1, 1, false},
                                      ConvolutionShape{2, 33, 3, 3, 50, 3, 3, 1, 1, true},
                                      ConvolutionShape{1, 24, 7, 7, 40, 3, 3, 1, 1, false, 2, 2},
                                      ConvolutionShape{2, 31, 4, 4, 50, 3, 3, 1, 1, false},
                                      ConvolutionShape{1, 40, 7, 9, 70, 1, 1, 0, 0, false},
                                      ConvolutionShape{3, 209, 2, 3, 16, 1, 1, 0, 0, false},
                                      ConvolutionShape{2, 17, 5, 5, 35, 1, 1, 0, 0, true, 2, 2}}) {
    ConvolutionShape all = one;
    all.batch = 7 * one.batch;
    for (const int64_t shard : {0, 3, 6}) {
      expect_same_bits_as_alone<float>(one, Case<float>(all), shard * one.batch);
      expect_same_bits_as_alone<BFloat16>(one, Case<BFloat16>(all), shard * one.batch);
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
