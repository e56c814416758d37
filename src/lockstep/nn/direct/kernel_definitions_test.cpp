// Linear, pooling, batch-norm and ReLU kernels, in every instruction set that this processor has, against plain definitions in float64; and the gradients of these
// definitions against differences. (Convolutions: convolution_kernels_test.cpp.) Numbers have so few digits that no order of additions rounds: what is asked for is
// the definition's number, rounded once to bfloat16 where the result is.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <ATen/ATen.h>
#include <torch/utils.h>

#include "lockstep/base/share.h"
#include "lockstep/nn/direct/kernel_table.h"
#include "lockstep/nn/direct/linear_kernels.h"
#include "lockstep/nn/direct/pool_kernels.h"
#include "lockstep/nn/fused/channel_kernels.h"
#include "lockstep/nn/fused/relu_kernels.h"
#include "lockstep/nn/internal/typed.h"
#include "lockstep/nn/layer.h"

namespace lockstep::nn {

namespace direct {
LOCKSTEP_DECLARE_KERNELS(LinearKernels, linear_kernels)
LOCKSTEP_DECLARE_KERNELS(PoolKernels, pool_kernels)
}  // namespace direct
namespace fused {
LOCKSTEP_DECLARE_KERNELS(ChannelKernels, channel_kernels)
const ChannelKernels<BFloat16>& bf16_channel_kernels(BFloat16);
LOCKSTEP_DECLARE_KERNELS(ReluKernels, relu_kernels)
}  // namespace fused

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// test(T{}, type) for both types of numbers in memory.
template <class Test>
void in_both_types(Test&& test) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    visit_type(type, [&](auto number) { test(number, type); });
  }
}

/// test(kernels) for those of the three sets that this processor has.
template <class Kernels, class Test>
void in_every_set(const Kernels& plain, const Kernels& avx2, const Kernels& avx512, Test&& test) {
  const auto run = [&](const char* name, const Kernels& kernels) {
    SCOPED_TRACE(name);
    test(kernels);
  };
  run("plain", plain);
  if (device::vector_unit() >= device::VectorUnit::avx2) run("avx2", avx2);
  if (device::vector_unit() >= device::VectorUnit::avx512) run("avx512", avx512);
}

/// Multiples of 1/16 up to 4, which bfloat16 holds too.
at::Tensor few_digits(at::IntArrayRef sizes) { return at::randint(-64, 65, sizes, at::kDouble).div(16); }

at::Tensor random_floats(at::IntArrayRef sizes) { return at::randn(sizes); }
at::Tensor random_doubles(at::IntArrayRef sizes) { return at::randn(sizes, at::kDouble); }

/// For a kernel to write all of.
at::Tensor unwritten(at::IntArrayRef sizes, at::ScalarType type) { return at::full(sizes, kNan, type); }

/// Whether these are the wanted float64 numbers, rounded once; a zero has no sign.
bool is_exact(const at::Tensor& ours, const at::Tensor& wanted) {
  return at::allclose(ours.to(at::kDouble), wanted.to(ours.scalar_type()).to(at::kDouble), 0, 0, /*equal_nan=*/true);
}

/// The slope of loss() along each of `values`, which it reads anew in each call.
template <class Loss>
at::Tensor slopes(const at::Tensor& values, const Loss& loss) {
  constexpr double kStep = 1e-5;
  const at::Tensor result = at::empty_like(values);
  double* value = data<double>(values);
  double* slope = data<double>(result);
  for (int64_t i = 0; i < values.numel(); ++i) {
    const double here = value[i];
    const auto loss_at = [&](double place) {
      value[i] = place;
      return loss();
    };
    const double above = loss_at(here + kStep), below = loss_at(here - kStep);
    slope[i] = (above - below) / (2 * kStep);
    value[i] = here;
  }
  return result;
}

bool is_near(const at::Tensor& slopes, const at::Tensor& gradient) { return at::allclose(slopes, gradient, 1e-6, 1e-6); }

double weighted_sum(const at::Tensor& output, const at::Tensor& gradient) { return (output * gradient).sum().item<double>(); }

// Linear layers.

struct LinearCase {
  direct::LinearShape shape;
  at::Tensor input, weight, bias, gradient;

  template <class Make>
  LinearCase(const direct::LinearShape& s, const Make& make)
      : shape(s), input(make({s.batch, s.features})), weight(make({s.outputs, s.features})), bias(make({s.outputs})), gradient(make({s.batch, s.outputs})) {}

  void convert(at::ScalarType type) {
    for (at::Tensor* tensor : {&input, &weight, &bias, &gradient}) *tensor = tensor->to(type);
  }
};

struct LinearResults {
  at::Tensor output, input_gradient, weight_gradient, bias_gradient;
};

LinearResults by_definition(const LinearCase& of) {
  LinearResults result{at::zeros_like(of.gradient), at::zeros_like(of.input), at::zeros_like(of.weight), at::zeros_like(of.bias)};
  const auto x = of.input.accessor<double, 2>(), w = of.weight.accessor<double, 2>(), g = of.gradient.accessor<double, 2>();
  const auto bias = of.bias.accessor<double, 1>();
  auto y = result.output.accessor<double, 2>(), by_x = result.input_gradient.accessor<double, 2>(), by_w = result.weight_gradient.accessor<double, 2>();
  auto by_bias = result.bias_gradient.accessor<double, 1>();
  for (int64_t n = 0; n < of.shape.batch; ++n) {
    for (int64_t k = 0; k < of.shape.outputs; ++k) {
      y[n][k] += bias[k];
      by_bias[k] += g[n][k];
      for (int64_t c = 0; c < of.shape.features; ++c) {
        y[n][k] += x[n][c] * w[k][c];
        by_x[n][c] += g[n][k] * w[k][c];
        by_w[k][c] += g[n][k] * x[n][c];
      }
    }
  }
  return result;
}

template <class T>
LinearResults by_kernels(const direct::LinearKernels<T>& kernels, const LinearCase& of) {
  const at::ScalarType type = of.input.scalar_type();
  LinearResults result{unwritten(of.gradient.sizes(), type), unwritten(of.input.sizes(), type), unwritten(of.weight.sizes(), at::kFloat), unwritten(of.bias.sizes(), at::kFloat)};
  kernels.forward(of.shape, data<T>(of.input), data<T>(of.weight), data<T>(of.bias), data<T>(result.output));
  kernels.input_gradient(of.shape, data<T>(of.gradient), data<T>(of.weight), data<T>(result.input_gradient));
  kernels.weight_gradient(of.shape, data<T>(of.gradient), data<T>(of.input), data<float>(result.weight_gradient));
  kernels.bias_gradient(of.shape, data<T>(of.gradient), data<float>(result.bias_gradient));
  return result;
}

template <class T, class Test>
void in_every_linear_set(Test&& test) {
  in_every_set(direct::plain_linear_kernels(T{}), direct::avx2_linear_kernels(T{}), direct::avx512_linear_kernels(T{}), test);
}

void check_linear(const direct::LinearShape& shape) {
  SCOPED_TRACE("batch " + std::to_string(shape.batch) + ", features " + std::to_string(shape.features) + ", outputs " + std::to_string(shape.outputs) + ", shards " +
               std::to_string(shape.shards));
  const LinearCase exact(shape, few_digits);
  const LinearResults wanted = by_definition(exact);
  in_both_types([&](auto number, at::ScalarType type) {
    using T = decltype(number);
    LinearCase of = exact;
    of.convert(type);
    in_every_linear_set<T>([&](const direct::LinearKernels<T>& kernels) {
      const LinearResults ours = by_kernels(kernels, of);
      EXPECT_TRUE(is_exact(ours.output, wanted.output)) << "output of " << type;
      EXPECT_TRUE(is_exact(ours.input_gradient, wanted.input_gradient)) << "gradient by input of " << type;
      EXPECT_TRUE(is_exact(ours.weight_gradient, wanted.weight_gradient)) << "gradient by weight of " << type;
      EXPECT_TRUE(is_exact(ours.bias_gradient, wanted.bias_gradient)) << "gradient by bias of " << type;
      const at::Tensor sum = exact.weight.to(at::kFloat), without_bias = unwritten(of.gradient.sizes(), type);
      kernels.add_weight_gradient(shape, data<T>(of.gradient), data<T>(of.input), data<float>(sum));
      EXPECT_TRUE(is_exact(sum, exact.weight + wanted.weight_gradient)) << "sum with gradient by weight of " << type;
      kernels.forward(shape, data<T>(of.input), data<T>(of.weight), nullptr, data<T>(without_bias));
      EXPECT_TRUE(is_exact(without_bias, wanted.output - exact.bias)) << "output without bias of " << type;
    });
  });
}

TEST(LinearKernels, AreExactForNumbersOfFewDigits) {
  torch::manual_seed(21);
  for (const int64_t batch : {1, 3, 8}) {
    for (const int64_t features : {1, 5, 16, 47, 97, 433}) {
      for (const int64_t outputs : {1, 4, 7, 21}) check_linear({batch, features, outputs});
    }
  }
  check_linear({12, 50, 7, 3});
  check_linear({8, 17, 33, 8});
}

TEST(LinearKernels, GiveASampleTheSameBitsInAnyBatch) {
  torch::manual_seed(22);
  in_both_types([](auto number, at::ScalarType type) {
    using T = decltype(number);
    LinearCase of({13, 97, 21}, random_floats);
    of.convert(type);
    in_every_linear_set<T>([&](const direct::LinearKernels<T>& kernels) {
      const LinearResults together = by_kernels(kernels, of);
      for (int64_t n = 0; n < of.shape.batch; ++n) {
        LinearCase alone = of;
        alone.shape.batch = 1;
        alone.input = of.input.narrow(0, n, 1);
        alone.gradient = of.gradient.narrow(0, n, 1);
        const LinearResults one = by_kernels(kernels, alone);
        EXPECT_TRUE(at::equal(one.output, together.output.narrow(0, n, 1)));
        EXPECT_TRUE(at::equal(one.input_gradient, together.input_gradient.narrow(0, n, 1)));
      }
    });
  });
}

TEST(LinearKernels, AddTheGradientsOfShardsInTheTree) {
  torch::manual_seed(23);
  in_both_types([](auto number, at::ScalarType type) {
    using T = decltype(number);
    LinearCase of({20, 97, 21, 5}, random_floats);
    of.convert(type);
    in_every_linear_set<T>([&](const direct::LinearKernels<T>& kernels) {
      const auto of_shard = [&](int64_t shard) {
        LinearCase alone = of;
        alone.shape = {4, 97, 21};
        alone.input = of.input.narrow(0, 4 * shard, 4);
        alone.gradient = of.gradient.narrow(0, 4 * shard, 4);
        return by_kernels(kernels, alone);
      };
      const LinearResults together = by_kernels(kernels, of);
      EXPECT_TRUE(at::equal(together.weight_gradient, tree_sum(0, 5, [&](int64_t shard) { return of_shard(shard).weight_gradient; })));
      EXPECT_TRUE(at::equal(together.bias_gradient, tree_sum(0, 5, [&](int64_t shard) { return of_shard(shard).bias_gradient; })));
    });
  });
}

TEST(LinearKernels, TheDefinitionsGradientsAreItsSlopes) {
  torch::manual_seed(24);
  const LinearCase of({3, 5, 4}, random_doubles);
  const LinearResults results = by_definition(of);
  const auto loss = [&] { return weighted_sum(by_definition(of).output, of.gradient); };
  EXPECT_TRUE(is_near(slopes(of.input, loss), results.input_gradient));
  EXPECT_TRUE(is_near(slopes(of.weight, loss), results.weight_gradient));
  EXPECT_TRUE(is_near(slopes(of.bias, loss), results.bias_gradient));
}

TEST(LinearKernels, TurnMatrices) {
  torch::manual_seed(25);
  in_both_types([](auto number, at::ScalarType type) {
    using T = decltype(number);
    for (const int64_t rows : {1, 3, 4, 16, 21, 40}) {
      for (const int64_t columns : {1, 4, 7, 16, 33}) {
        const at::Tensor matrices = at::randn({3, rows, columns}).to(type);
        in_every_linear_set<T>([&](const direct::LinearKernels<T>& kernels) {
          const at::Tensor turned = unwritten({3, columns, rows}, type);
          kernels.turn(data<T>(matrices), 3, rows, columns, data<T>(turned));
          EXPECT_TRUE(at::equal(turned, matrices.transpose(1, 2))) << rows << " x " << columns << " of " << type;
        });
      }
    }
  });
}

// Max-pooling.

direct::PoolShape pool_shape(int64_t batch, int64_t channels, const Window& rows, const Window& columns, bool relu) {
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

/// The largest point of a window: its place there by rows, and where it lies in the picture.
struct LargestPoint {
  int64_t place = -1, row = 0, column = 0;
};

template <class Picture>
LargestPoint largest_point(const direct::PoolShape& s, const Picture& picture, int64_t y, int64_t x, int64_t channel) {
  LargestPoint best;
  for (int64_t place = 0; place < s.kernel_height * s.kernel_width; ++place) {
    const int64_t row = y * s.stride_height - s.padding_height + place / s.kernel_width;
    const int64_t column = x * s.stride_width - s.padding_width + place % s.kernel_width;
    if (row < 0 || row >= s.height || column < 0 || column >= s.width) continue;
    const double value = picture[row][column][channel];
    if (best.place < 0 || value > picture[best.row][best.column][channel] || std::isnan(value)) best = {place, row, column};
  }
  return best;
}

struct PoolResults {
  at::Tensor output, largest, input_gradient;
};

PoolResults by_definition(const direct::PoolShape& s, const at::Tensor& input, const at::Tensor& gradient) {
  constexpr uint8_t kCut = 255;
  PoolResults result{at::zeros_like(gradient), at::full(gradient.sizes(), kCut, at::kByte), at::zeros_like(input)};
  const auto pictures = input.accessor<double, 4>(), g = gradient.accessor<double, 4>();
  auto output = result.output.accessor<double, 4>(), by_input = result.input_gradient.accessor<double, 4>();
  auto largest = result.largest.accessor<uint8_t, 4>();
  for (int64_t n = 0; n < s.batch; ++n)
    for (int64_t y = 0; y < s.output_height; ++y)
      for (int64_t x = 0; x < s.output_width; ++x)
        for (int64_t c = 0; c < s.channels; ++c) {
          const LargestPoint point = largest_point(s, pictures[n], y, x, c);
          const double value = pictures[n][point.row][point.column][c];
          if (s.relu && value <= 0) continue;
          output[n][y][x][c] = value;
          largest[n][y][x][c] = static_cast<uint8_t>(point.place);
          by_input[n][point.row][point.column][c] += g[n][y][x][c];
        }
  return result;
}

void check_pool(const direct::PoolShape& s) {
  SCOPED_TRACE("batch " + std::to_string(s.batch) + ", channels " + std::to_string(s.channels) + ", kernel " + std::to_string(s.kernel_height) + " x " +
               std::to_string(s.kernel_width) + ", outputs " + std::to_string(s.output_height) + " x " + std::to_string(s.output_width) + (s.relu ? ", ReLU" : ""));
  // Whole numbers from -4 to 4, many of them equal.
  const at::Tensor input = few_digits({s.batch, s.height, s.width, s.channels}).round(), gradient = few_digits({s.batch, s.output_height, s.output_width, s.channels});
  input.flatten().slice(0, 5, input.numel(), 97).fill_(kNan);
  const PoolResults wanted = by_definition(s, input, gradient);
  in_both_types([&](auto number, at::ScalarType type) {
    using T = decltype(number);
    const at::Tensor own_input = input.to(type), own_gradient = gradient.to(type);
    in_every_set(direct::plain_pool_kernels(T{}), direct::avx2_pool_kernels(T{}), direct::avx512_pool_kernels(T{}), [&](const direct::PoolKernels<T>& kernels) {
      const at::Tensor output = unwritten(gradient.sizes(), type), largest = at::zeros(gradient.sizes(), at::kByte), input_gradient = unwritten(input.sizes(), type);
      kernels.max_pool(s, data<T>(own_input), data<T>(output), data<uint8_t>(largest));
      kernels.max_pool_gradient(s, data<T>(own_gradient), data<uint8_t>(largest), data<T>(input_gradient));
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
  const Windows all[]{{{2, 2, 0}, {2, 2, 0}}, {{3, 2, 0}, {3, 2, 0}}, {{3, 2, 1}, {3, 2, 1}}, {{11, 11, 0}, {7, 7, 0}}, {{5, 1, 2}, {2, 3, 0}}, {{2, 3, 0}, {2, 3, 0}}, {{1, 1, 0}, {2, 2, 0}}};
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
    const direct::PoolShape s = pool_shape(2, 2, {3, 2, 1}, {3, 2, 1}, relu);
    // No two are equal, and none is zero.
    const int64_t count = s.batch * s.height * s.width * s.channels;
    const at::Tensor input = at::randperm(count, at::kDouble).sub(static_cast<double>(count / 2) - 0.5).div(count).view({s.batch, s.height, s.width, s.channels});
    const at::Tensor gradient = at::randn({s.batch, s.output_height, s.output_width, s.channels}, at::kDouble);
    const at::Tensor input_gradient = by_definition(s, input, gradient).input_gradient;
    EXPECT_TRUE(is_near(slopes(input, [&] { return weighted_sum(by_definition(s, input, gradient).output, gradient); }), input_gradient));
  }
}

// Batch norm.

/// Tensors [rows, channels], and [channels].
struct ChannelCase {
  at::Tensor input, gradient, scale, shift, mean, slope, offset;
  bool relu;

  template <class Make>
  ChannelCase(int64_t rows, int64_t channels, bool with_relu, const Make& make)
      : input(make({rows, channels})), gradient(make({rows, channels})), scale(make({channels})), shift(make({channels})), mean(make({channels})), slope(make({channels})),
        offset(make({channels})), relu(with_relu) {}

  void convert(at::ScalarType type) {
    for (at::Tensor* tensor : {&input, &gradient}) *tensor = tensor->to(type);
    for (at::Tensor* tensor : {&scale, &shift, &mean, &slope, &offset}) *tensor = tensor->to(at::kFloat);
  }
};

/// The input's mean and its sum of squared deviations; then what the given scale and mean, and not these, make of it.
struct ChannelResults {
  at::Tensor mean, deviation, output, sum, products, input_gradient;

  std::vector<at::Tensor> all() const { return {mean, deviation, output, sum, products, input_gradient}; }
};

ChannelResults by_definition(const ChannelCase& of) {
  const at::Tensor zeros = at::zeros_like(of.scale), whole = at::zeros_like(of.input);
  ChannelResults result{zeros, zeros.clone(), whole, zeros.clone(), zeros.clone(), whole.clone()};
  const auto inputs = of.input.accessor<double, 2>(), gradients = of.gradient.accessor<double, 2>();
  const auto scale = of.scale.accessor<double, 1>(), shift = of.shift.accessor<double, 1>(), mean = of.mean.accessor<double, 1>();
  const auto slope = of.slope.accessor<double, 1>(), offset = of.offset.accessor<double, 1>();
  auto own_mean = result.mean.accessor<double, 1>(), deviation = result.deviation.accessor<double, 1>();
  auto sum = result.sum.accessor<double, 1>(), products = result.products.accessor<double, 1>();
  auto output = result.output.accessor<double, 2>(), by_input = result.input_gradient.accessor<double, 2>();
  const int64_t rows = of.input.size(0);
  for (int64_t c = 0; c < of.input.size(1); ++c) {
    for (int64_t row = 0; row < rows; ++row) own_mean[c] += inputs[row][c];
    own_mean[c] /= static_cast<double>(rows);
    for (int64_t row = 0; row < rows; ++row) {
      const double x = inputs[row][c], y = x * scale[c] + shift[c];
      const double g = of.relu && y <= 0 ? 0 : gradients[row][c];
      deviation[c] += (x - own_mean[c]) * (x - own_mean[c]);
      output[row][c] = of.relu && y < 0 ? 0 : y;
      sum[c] += g;
      products[c] += g * (x - mean[c]);
      by_input[row][c] = g * scale[c] + (x - mean[c]) * slope[c] + offset[c];
    }
  }
  return result;
}

template <class T>
ChannelResults by_kernels(const fused::ChannelKernels<T>& kernels, const ChannelCase& of) {
  const int64_t rows = of.input.size(0), channels = of.input.size(1);
  const auto each = [&] { return unwritten({channels}, at::kFloat); };
  const auto whole = [&] { return unwritten({rows, channels}, of.input.scalar_type()); };
  ChannelResults result{each(), each(), whole(), each(), each(), whole()};
  const float *scale = data<float>(of.scale), *shift = data<float>(of.shift), *mean = data<float>(of.mean);
  kernels.moments(data<T>(of.input), rows, channels, data<float>(result.mean), data<float>(result.deviation));
  kernels.transform(data<T>(of.input), rows, channels, scale, shift, of.relu, data<T>(result.output));
  kernels.gradient_sums(data<T>(of.gradient), data<T>(of.input), rows, channels, scale, shift, mean, of.relu, data<float>(result.sum), data<float>(result.products));
  kernels.input_gradient(data<T>(of.gradient), data<T>(of.input), rows, channels, scale, shift, mean, data<float>(of.slope), data<float>(of.offset), of.relu,
                         data<T>(result.input_gradient));
  return result;
}

template <class T, class Test>
void in_every_channel_set(Test&& test) {
  in_every_set(fused::plain_channel_kernels(T{}), fused::avx2_channel_kernels(T{}), fused::avx512_channel_kernels(T{}), test);
  if constexpr (std::is_same_v<T, fused::BFloat16>) {
    SCOPED_TRACE("with the processor's own rounding");
    if (device::rounds_to_bfloat16()) test(fused::bf16_channel_kernels({}));
  }
}

/// The mean has more than a few digits: each of the squares and sums may round, and the mean itself.
bool is_near_deviation(const at::Tensor& ours, const ChannelResults& wanted, int64_t rows) {
  const double rounding = std::ldexp(1.0, -24), count = static_cast<double>(rows);
  const at::Tensor most = wanted.deviation * ((count + 5) * rounding) + (wanted.mean * rounding).square() * count;
  return (ours.to(at::kDouble) - wanted.deviation).abs().le(most).all().item<bool>();
}

void check_channels(int64_t rows, int64_t channels, bool relu) {
  SCOPED_TRACE(std::to_string(rows) + " rows of " + std::to_string(channels) + " channels" + (relu ? ", ReLU" : ""));
  const ChannelCase exact(rows, channels, relu, few_digits);
  const ChannelResults wanted = by_definition(exact);
  in_both_types([&](auto number, at::ScalarType type) {
    using T = decltype(number);
    ChannelCase of = exact;
    of.convert(type);
    in_every_channel_set<T>([&](const fused::ChannelKernels<T>& kernels) {
      const ChannelResults ours = by_kernels(kernels, of);
      EXPECT_TRUE(is_exact(ours.mean, wanted.mean)) << "mean of " << type;
      EXPECT_TRUE(is_near_deviation(ours.deviation, wanted, rows)) << "deviation of " << type;
      EXPECT_TRUE(is_exact(ours.output, wanted.output)) << "output of " << type;
      EXPECT_TRUE(is_exact(ours.sum, wanted.sum)) << "sum of gradients of " << type;
      EXPECT_TRUE(is_exact(ours.products, wanted.products)) << "sum of products of " << type;
      EXPECT_TRUE(is_exact(ours.input_gradient, wanted.input_gradient)) << "gradient by input of " << type;
    });
  });
}

TEST(ChannelKernels, AreExactForNumbersOfFewDigits) {
  torch::manual_seed(28);
  for (const int64_t channels : {1, 2, 3, 7, 16, 20, 37, 64, 100}) {
    for (const int64_t rows : {1, 2, 5, 17, 101, 300}) {
      for (const bool relu : {false, true}) check_channels(rows, channels, relu);
    }
  }
}

void expect_same_bits_in_every_set(int64_t rows, int64_t channels, bool relu) {
  SCOPED_TRACE(std::to_string(rows) + " rows of " + std::to_string(channels) + " channels" + (relu ? ", ReLU" : ""));
  in_both_types([&](auto number, at::ScalarType type) {
    using T = decltype(number);
    ChannelCase of(rows, channels, relu, random_floats);
    of.input = of.input * 3 + 10;
    of.convert(type);
    const std::vector<at::Tensor> plain = by_kernels(fused::plain_channel_kernels(T{}), of).all();
    in_every_channel_set<T>([&](const fused::ChannelKernels<T>& kernels) {
      const std::vector<at::Tensor> ours = by_kernels(kernels, of).all();
      for (size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(at::equal(ours[i], plain[i])) << "result " << i << " of " << type;
    });
  });
}

TEST(ChannelKernels, GiveTheSameBitsInEverySet) {
  torch::manual_seed(29);
  for (const int64_t channels : {1, 3, 16, 20, 37, 65}) {
    for (const int64_t rows : {1, 7, 101, 2500}) {
      for (const bool relu : {false, true}) expect_same_bits_in_every_set(rows, channels, relu);
    }
  }
}

struct BatchNormResults {
  at::Tensor output, input_gradient, weight_gradient, bias_gradient;
};

/// Of the definitions, as fused_batch_norm.cpp makes it of the kernels.
BatchNormResults batch_norm_of(ChannelCase of, const at::Tensor& weight, const at::Tensor& bias) {
  const auto rows = static_cast<double>(of.input.size(0));
  const ChannelResults moments = by_definition(of);
  const at::Tensor inverse = (moments.deviation / rows + 1e-5).rsqrt();
  of.mean = moments.mean;
  of.scale = weight * inverse;
  of.shift = bias - of.mean * of.scale;
  const ChannelResults sums = by_definition(of);
  of.slope = -of.scale * inverse.square() * sums.products / rows;
  of.offset = -of.scale * sums.sum / rows;
  return {sums.output, by_definition(of).input_gradient, sums.products * inverse, sums.sum};
}

TEST(ChannelKernels, TheGradientsOfTheDefinitionsBatchNormAreItsSlopes) {
  torch::manual_seed(30);
  for (const bool relu : {false, true}) {
    const ChannelCase of(7, 3, relu, random_doubles);
    const at::Tensor weight = random_doubles({3}), bias = random_doubles({3});
    const BatchNormResults results = batch_norm_of(of, weight, bias);
    const auto loss = [&] { return weighted_sum(batch_norm_of(of, weight, bias).output, of.gradient); };
    EXPECT_TRUE(is_near(slopes(of.input, loss), results.input_gradient)) << "ReLU " << relu;
    EXPECT_TRUE(is_near(slopes(weight, loss), results.weight_gradient)) << "ReLU " << relu;
    EXPECT_TRUE(is_near(slopes(bias, loss), results.bias_gradient)) << "ReLU " << relu;
  }
}

// ReLU.

/// Numbers of few digits with NaN, infinities and zeros of both signs among them.
at::Tensor awkward_numbers(at::IntArrayRef sizes) {
  const at::Tensor result = few_digits(sizes), line = result.view({-1});
  int64_t first = 0;
  for (const double value : {kNan, -kInfinity, kInfinity, -0.0, 0.0}) line.slice(0, first++, line.numel(), 11).fill_(value);
  return result;
}

/// A part of wider rows, as concatenations have it.
struct WideRows {
  static constexpr int64_t kBeyond = 5;
  at::Tensor wide, part;

  WideRows(int64_t rows, int64_t columns, at::ScalarType type) : wide(unwritten({rows, columns + kBeyond}, type)), part(wide.narrow(1, 0, columns)) {}

  template <class T>
  fused::Rows<T> of() const {
    return {data<T>(wide), wide.size(1)};
  }
  bool is_alone_written() const { return wide.narrow(1, part.size(1), kBeyond).isnan().all().item<bool>(); }
};

template <class T>
fused::Rows<const T> dense(const at::Tensor& rows) {
  return {data<T>(rows), rows.size(1)};
}

void check_relu(int64_t rows, int64_t columns) {
  SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns));
  const at::Tensor a = awkward_numbers({rows, columns}), b = few_digits({rows, columns});
  const at::Tensor wanted = a.masked_fill(a.lt(0), 0), wanted_gradient = b.masked_fill(wanted.eq(0), 0), wanted_sum = (a + b).masked_fill((a + b).lt(0), 0);
  in_both_types([&](auto number, at::ScalarType type) {
    using T = decltype(number);
    const at::Tensor own_a = a.to(type), own_b = b.to(type);
    in_every_set(fused::plain_relu_kernels(T{}), fused::avx2_relu_kernels(T{}), fused::avx512_relu_kernels(T{}), [&](const fused::ReluKernels<T>& kernels) {
      const WideRows output(rows, columns, type), gradient(rows, columns, type);
      const at::Tensor sum = unwritten({rows, columns}, type), in_place = own_a.clone();
      kernels.relu(rows, columns, dense<T>(own_a), output.of<T>());
      kernels.relu(rows, columns, dense<T>(in_place), {data<T>(in_place), columns});
      kernels.relu_gradient(rows, columns, dense<T>(own_b), output.of<const T>(), gradient.of<T>());
      kernels.add_relu(rows * columns, data<T>(own_a), data<T>(own_b), data<T>(sum));
      EXPECT_TRUE(is_exact(output.part, wanted)) << "output of " << type;
      EXPECT_TRUE(is_exact(in_place, wanted)) << "output in place of " << type;
      EXPECT_TRUE(is_exact(gradient.part, wanted_gradient)) << "gradient of " << type;
      EXPECT_TRUE(is_exact(sum, wanted_sum)) << "of a sum of " << type;
      EXPECT_TRUE(output.is_alone_written() && gradient.is_alone_written());
    });
  });
}

TEST(ReluKernels, FollowTheDefinition) {
  torch::manual_seed(31);
  for (const int64_t columns : {1, 3, 7, 8, 15, 16, 17, 33, 255, 256, 257, 530}) {
    for (const int64_t rows : {1, 3}) check_relu(rows, columns);
  }
}

}  // namespace
}  // namespace lockstep::nn
