// Batch-norm kernels, in every instruction set that this processor has, against a plain definition in
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
#include "lockstep/kernels/channel_kernels.h"
#include "lockstep/kernels/internal/test_kernels.h"
#include "lockstep/kernels/internal/typed.h"

namespace lockstep::kernels {

LOCKSTEP_DECLARE_KERNELS(ChannelKernels, channel_kernels)
const ChannelKernels<BFloat16>& bf16_channel_kernels(BFloat16);

namespace {

using namespace test;

/// Tensors [rows, channels], and [channels].
struct ChannelCase {
  at::Tensor input, gradient, scale, shift, mean, slope, offset;
  bool relu;

  template <class Make>
  ChannelCase(int64_t rows, int64_t channels, bool with_relu, const Make& make)
      : input(make({rows, channels})),
        gradient(make({rows, channels})),
        scale(make({channels})),
        shift(make({channels})),
        mean(make({channels})),
        slope(make({channels})),
        offset(make({channels})),
        relu(with_relu) {}

  void convert(at::ScalarType type) {
    for (at::Tensor* tensor : {&input, &gradient}) *tensor = tensor->to(type);
    for (at::Tensor* tensor : {&scale, &shift, &mean, &slope, &offset}) *tensor = tensor->to(at::kFloat);
  }
};

/// The input's mean and its sum of squared deviations; then what the given scale and mean, and not these,
/// make of it.
struct ChannelResults {
  at::Tensor mean, deviation, output, sum, products, input_gradient;

  std::vector<at::Tensor> all() const { return {mean, deviation, output, sum, products, input_gradient}; }
};

ChannelResults by_definition(const ChannelCase& of) {
  const at::Tensor zeros = at::zeros_like(of.scale), whole = at::zeros_like(of.input);
  ChannelResults result{zeros, zeros.clone(), whole, zeros.clone(), zeros.clone(), whole.clone()};
  const auto inputs = of.input.accessor<double, 2>(), gradients = of.gradient.accessor<double, 2>();
  const auto scale = of.scale.accessor<double, 1>(), shift = of.shift.accessor<double, 1>(),
             mean = of.mean.accessor<double, 1>();
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
ChannelResults by_kernels(const kernels::ChannelKernels<T>& kernels, const ChannelCase& of) {
  const int64_t rows = of.input.size(0), channels = of.input.size(1);
  const auto each = [&] { return unwritten({channels}, at::kFloat); };
  const auto whole = [&] { return unwritten({rows, channels}, of.input.scalar_type()); };
  ChannelResults result{each(), each(), whole(), each(), each(), whole()};
  const float *scale = data<float>(of.scale), *shift = data<float>(of.shift), *mean = data<float>(of.mean);
  kernels.moments(data<T>(of.input), rows, channels, data<float>(result.mean), data<float>(result.deviation));
  kernels.transform(data<T>(of.input), rows, channels, scale, shift, of.relu, data<T>(result.output));
  kernels.gradient_sums(data<T>(of.gradient), data<T>(of.input), rows, channels, scale, shift, mean, of.relu,
                        data<float>(result.sum), data<float>(result.products));
  kernels.input_gradient(data<T>(of.gradient), data<T>(of.input), rows, channels, scale, shift, mean,
                         data<float>(of.slope), data<float>(of.offset), of.relu,
                         data<T>(result.input_gradient));
  return result;
}

template <class T, class Test>
void in_every_channel_set(Test&& test) {
  in_every_set(kernels::plain_channel_kernels(T{}), kernels::avx2_channel_kernels(T{}),
               kernels::avx512_channel_kernels(T{}), test);
  if constexpr (std::is_same_v<T, kernels::BFloat16>) {
    SCOPED_TRACE("with the processor's own rounding");
    if (device::rounds_to_bfloat16()) test(kernels::bf16_channel_kernels({}));
  }
}

/// The mean has more than a few digits: each of the squares and sums may round, and the mean itself.
bool is_near_deviation(const at::Tensor& ours, const ChannelResults& wanted, int64_t rows) {
  const double rounding = std::ldexp(1.0, -24), count = static_cast<double>(rows);
  const at::Tensor most =
      wanted.deviation * ((count + 5) * rounding) + (wanted.mean * rounding).square() * count;
  return (ours.to(at::kDouble) - wanted.deviation).abs().le(most).all().item<bool>();
}

void check_channels(int64_t rows, int64_t channels, bool relu) {
  SCOPED_TRACE(std::to_string(rows) + " rows of " + std::to_string(channels) + " channels" +
               (relu ? ", ReLU" : ""));
  const ChannelCase exact(rows, channels, relu, few_digits);
  const ChannelResults wanted = by_definition(exact);
  in_both_types([&](auto number, at::ScalarType type) {
    using T = decltype(number);
    ChannelCase of = exact;
    of.convert(type);
    in_every_channel_set<T>([&](const kernels::ChannelKernels<T>& kernels) {
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
  SCOPED_TRACE(std::to_string(rows) + " rows of " + std::to_string(channels) + " channels" +
               (relu ? ", ReLU" : ""));
  in_both_types([&](auto number, at::ScalarType type) {
    using T = decltype(number);
    ChannelCase of(rows, channels, relu, random_floats);
    of.input = of.input * 3 + 10;
    of.convert(type);
    const std::vector<at::Tensor> plain = by_kernels(kernels::plain_channel_kernels(T{}), of).all();
    in_every_channel_set<T>([&](const kernels::ChannelKernels<T>& kernels) {
      const std::vector<at::Tensor> ours = by_kernels(kernels, of).all();
      for (size_t i = 0; i < plain.size(); ++i)
        EXPECT_TRUE(at::equal(ours[i], plain[i])) << "result " << i << " of " << type;
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

}  // namespace
}  // namespace lockstep::kernels
