// Max-pooling kernels, in every instruction set that this processor has, against a plain definition in
// float64; and the gradients of the definition against differences. Numbers have so few digits that no order
// of additions rounds: what is asked for is the definition's number, rounded once to bfloat16 where the
// result is.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include <ATen/ATen.h>
#include <torch/utils.h>

#include "lockstep/kernels/internal/kernel_table.h"
#include "lockstep/kernels/pool_kernels.h"
#include "lockstep/kernels/internal/test_kernels.h"
#include "lockstep/kernels/internal/typed.h"
#include "lockstep/kernels/window.h"

namespace lockstep::kernels {

LOCKSTEP_DECLARE_KERNELS(PoolKernels, pool_kernels)

namespace {

using namespace test;

kernels::PoolShape pool_shape(int64_t batch, int64_t channels, const Window& rows, const Window& columns,
                              bool relu) {
  constexpr int64_t kHeight = 11, kWidth = 14;
  return {.batch = batch,
          .channels = channels,
          .height = kHeight,
          .width = kWidth,
          .output_height = window_count(kHeight, rows),
          .output_width = window_count(kWidth, columns),
          .kernel_height = rows.kernel,
          .kernel_width = columns.kernel,
          .stride_height = rows.stride,
          .stride_width = columns.stride,
          .padding_height = rows.padding,
          .padding_width = columns.padding,
          .relu = relu};
}

/// The largest point of a window: its place there by rows, and where it lies in the image.
struct LargestPoint {
  int64_t place = -1, row = 0, column = 0;
};

template <class Image>
LargestPoint largest_point(const kernels::PoolShape& s, const Image& image, int64_t y, int64_t x,
                           int64_t channel) {
  LargestPoint best;
  for (int64_t place = 0; place < s.kernel_height * s.kernel_width; ++place) {
    const int64_t row = y * s.stride_height - s.padding_height + place / s.kernel_width;
    const int64_t column = x * s.stride_width - s.padding_width + place % s.kernel_width;
    if (row < 0 || row >= s.height || column < 0 || column >= s.width) continue;
    const double value = image[row][column][channel];
    if (best.place < 0 || value > image[best.row][best.column][channel] || std::isnan(value))
      best = {place, row, column};
  }
  return best;
}

struct PoolResults {
  at::Tensor output, largest, input_gradient;
};

PoolResults by_definition(const kernels::PoolShape& s, const at::Tensor& input, const at::Tensor& gradient) {
  constexpr uint8_t kCut = 255;
  PoolResults result{at::zeros_like(gradient), at::full(gradient.sizes(), kCut, at::kByte),
                     at::zeros_like(input)};
  const auto images = input.accessor<double, 4>(), g = gradient.accessor<double, 4>();
  auto output = result.output.accessor<double, 4>(), by_input = result.input_gradient.accessor<double, 4>();
  auto largest = result.largest.accessor<uint8_t, 4>();
  for (int64_t n = 0; n < s.batch; ++n)
    for (int64_t y = 0; y < s.output_height; ++y)
      for (int64_t x = 0; x < s.output_width; ++x)
        for (int64_t c = 0; c < s.channels; ++c) {
          const LargestPoint point = largest_point(s, images[n], y, x, c);
          const double value = images[n][point.row][point.column][c];
          if (s.relu && value <= 0) continue;
          output[n][y][x][c] = value;
          largest[n][y][x][c] = static_cast<uint8_t>(point.place);
          by_input[n][point.row][point.column][c] += g[n][y][x][c];
        }
  return result;
}

void check_pool(const kernels::PoolShape& s) {
  SCOPED_TRACE("batch " + std::to_string(s.batch) + ", channels " + std::to_string(s.channels) + ", kernel " +
               std::to_string(s.kernel_height) + " x " + std::to_string(s.kernel_width) + ", outputs " +
               std::to_string(s.output_height) + " x " + std::to_string(s.output_width) +
               (s.relu ? ", ReLU" : ""));
  // Whole numbers from -4 to 4, many of them equal.
  const at::Tensor input = few_digits({s.batch, s.height, s.width, s.channels}).round(),
                   gradient = few_digits({s.batch, s.output_height, s.output_width, s.channels});
  input.flatten().slice(0, 5, input.numel(), 97).fill_(kNan);
  const PoolResults wanted = by_definition(s, input, gradient);
  in_both_types([&](auto number, at::ScalarType type) {
    using T = decltype(number);
    const at::Tensor own_input = input.to(type), own_gradient = gradient.to(type);
    in_every_set(kernels::plain_pool_kernels(T{}), kernels::avx2_pool_kernels(T{}),
                 kernels::avx512_pool_kernels(T{}), [&](const kernels::PoolKernels<T>& kernels) {
                   const at::Tensor output = unwritten(gradient.sizes(), type),
                                    largest = at::zeros(gradient.sizes(), at::kByte),
                                    input_gradient = unwritten(input.sizes(), type);
                   kernels.max_pool(s, data<T>(own_input), data<T>(output), data<uint8_t>(largest));
                   kernels.max_pool_gradient(s, data<T>(own_gradient), data<uint8_t>(largest),
                                             data<T>(input_gradient));
                   EXPECT_TRUE(is_exact(output, wanted.output)) << "output of " << type;
                   EXPECT_TRUE(at::equal(largest, wanted.largest)) << "places of " << type;
                   EXPECT_TRUE(is_exact(input_gradient, wanted.input_gradient)) << "gradient of " << type;
                 });
  });
}

TEST(PoolKernels, FollowTheDefinition) {
  torch::manual_seed(26);
  struct Windows {
    Window rows, columns;
  };
  const Windows all[]{{{2, 2, 0}, {2, 2, 0}},   {{3, 2, 0}, {3, 2, 0}}, {{3, 2, 1}, {3, 2, 1}},
                      {{11, 11, 0}, {7, 7, 0}}, {{5, 1, 2}, {2, 3, 0}}, {{2, 3, 0}, {2, 3, 0}},
                      {{1, 1, 0}, {2, 2, 0}}};
  for (auto [rows, columns] : all) {
    for (const int64_t channels : {1, 2, 5, 16, 21, 37}) {
      for (const bool relu : {false, true}) {
        for (const bool ceil : {false, true}) {
          rows.ceil_mode = columns.ceil_mode = ceil;
          check_pool(pool_shape(channels % 2 + 1, channels, rows, columns, relu));
        }
      }
    }
  }
}

TEST(PoolKernels, TheDefinitionsGradientIsItsSlope) {
  torch::manual_seed(27);
  for (const bool relu : {false, true}) {
    const kernels::PoolShape s = pool_shape(2, 2, {3, 2, 1}, {3, 2, 1}, relu);
    // No two are equal, and none is zero.
    const int64_t count = s.batch * s.height * s.width * s.channels;
    const int64_t half = count / 2;
    const at::Tensor input = at::randperm(count, at::kDouble)
                                 .sub(static_cast<double>(half) - 0.5)
                                 .div(count)
                                 .view({s.batch, s.height, s.width, s.channels});
    const at::Tensor gradient =
        at::randn({s.batch, s.output_height, s.output_width, s.channels}, at::kDouble);
    const at::Tensor input_gradient = by_definition(s, input, gradient).input_gradient;
    EXPECT_TRUE(is_near(
        slopes(input, [&] { return weighted_sum(by_definition(s, input, gradient).output, gradient); }),
        input_gradient));
  }
}

}  // namespace
}  // namespace lockstep::kernels
