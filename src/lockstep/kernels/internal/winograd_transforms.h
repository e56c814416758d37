// Winograd's algorithm for output tiles of 4 x 4. For a kernel of 3, tiles have 6 x 6 inputs, and the points
// are 0, 1, -1, 2, -2 and infinity. For a kernel of 5, tiles have 8 x 8 inputs, with the points 1/2 and -1/2
// in addition. Lavin and Gray 2016, "Fast algorithms for convolutional neural networks".
#pragma once

#include "lockstep/kernels/internal/vectors.h"

namespace lockstep::kernels {
namespace {

constexpr int kOutput = 4;

constexpr int side_of(int kernel) { return kernel + kOutput - 1; }

// Each step transforms one column or row of kIn values into kOut values. Steps with the parameter kSide serve
// both kernels; kSide is the side of their tiles.

template <int kSide>
struct InputStep {
  static constexpr int kIn = kSide;
  static constexpr int kOut = kSide;
  template <class V>
  static void apply(const V* d, V* out) {
    if constexpr (kSide == 6) {
      const V four = V{} + 4.0F;
      const V two = V{} + 2.0F;
      const V even = subtract_product(d[2], four, d[4]);
      const V odd = subtract_product(d[1], four, d[3]);
      const V even2 = d[4] - d[2];
      const V odd2 = d[3] - d[1];
      out[0] = multiply_add(d[0] - d[2], four, even2);
      out[1] = even + odd;
      out[2] = even - odd;
      out[3] = multiply_add(odd2, two, even2);
      out[4] = subtract_product(odd2, two, even2);
      out[5] = subtract_product(odd2, four, d[5] - d[3]);
    } else {
      const V even = subtract_product(d[4], V{} + 4.25F, d[2] + d[6]);
      const V odd = subtract_product(d[3], V{} + 4.25F, d[1] + d[5]);
      const V even2 = subtract_product(d[4], V{} + 1.25F, multiply_add(d[2], V{} + 0.25F, d[6]));
      const V odd2 = multiply_add(d[5], V{} + 2.0F, subtract_product(d[3], V{} + 2.5F, d[1] * 0.5F));
      const V even3 = multiply_add(subtract_product(d[4], V{} + 1.25F, d[2]), V{} + 4.0F, d[6]);
      const V odd3 = multiply_add(d[1], V{} + 2.0F, subtract_product(d[3], V{} + 2.5F, d[5] * 0.5F));
      out[0] = multiply_add(d[4] - d[2], V{} + 5.25F, d[0] - d[6]);
      out[1] = even + odd;
      out[2] = even - odd;
      out[3] = even2 + odd2;
      out[4] = even2 - odd2;
      out[5] = even3 + odd3;
      out[6] = even3 - odd3;
      out[7] = multiply_add(d[3] - d[5], V{} + 5.25F, d[7] - d[1]);
    }
  }
};

/// The transpose of InputStep, for the gradient by the input.
template <int kSide>
struct InputGradientStep {
  static constexpr int kIn = kSide;
  static constexpr int kOut = kSide;
  template <class V>
  static void apply(const V* t, V* out) {
    const V sum = t[1] + t[2];
    const V difference = t[1] - t[2];
    const V sum2 = t[3] + t[4];
    const V difference2 = t[3] - t[4];
    if constexpr (kSide == 6) {
      const V twice = difference2 + difference2;
      out[0] = t[0] * 4.0F;
      out[1] = multiply_add(t[5] - difference, V{} + 4.0F, -twice);
      out[2] = subtract_product(sum, V{} + 4.0F, subtract_product(t[0], V{} + 5.0F, -sum2));
      out[3] = subtract_product(t[5], V{} + 5.0F, difference + twice);
      out[4] = t[0] + sum + sum2;
      out[5] = t[5];
    } else {
      const V sum3 = t[5] + t[6];
      const V difference3 = t[5] - t[6];
      out[0] = t[0];
      out[1] =
          multiply_add(difference3, V{} + 2.0F, multiply_add(difference2, V{} + 0.5F, difference - t[7]));
      out[2] = multiply_add(sum3, V{} + 4.0F,
                            multiply_add(sum2, V{} + 0.25F, subtract_product(t[0], V{} + 5.25F, sum)));
      out[3] = subtract_product(difference2 + difference3, V{} + 2.5F,
                                subtract_product(difference, V{} + 4.25F, t[7] * 5.25F));
      out[4] = subtract_product(
          sum3, V{} + 5.0F,
          subtract_product(sum2, V{} + 1.25F, subtract_product(sum, V{} + 4.25F, t[0] * 5.25F)));
      out[5] = multiply_add(
          difference3, V{} + 0.5F,
          multiply_add(difference2, V{} + 2.0F, subtract_product(t[7], V{} + 5.25F, difference)));
      out[6] = sum + sum2 + sum3 - t[0];
      out[7] = t[7];
    }
  }
};

template <int kSide>
struct OutputStep {
  static constexpr int kIn = kSide;
  static constexpr int kOut = kOutput;
  template <class V>
  static void apply(const V* m, V* out) {
    const V sum = m[1] + m[2];
    const V difference = m[1] - m[2];
    const V sum2 = m[3] + m[4];
    const V difference2 = m[3] - m[4];
    out[0] = m[0] + sum + sum2;
    out[1] = multiply_add(difference2, V{} + 2.0F, difference);
    out[2] = multiply_add(sum2, V{} + 4.0F, sum);
    out[3] = multiply_add(difference2, V{} + 8.0F, difference) + m[kSide - 1];
    if constexpr (kSide == 8) {
      const V sum3 = m[5] + m[6];
      const V difference3 = m[5] - m[6];
      out[0] += sum3;
      out[1] = multiply_add(difference3, V{} + 0.5F, out[1]);
      out[2] = multiply_add(sum3, V{} + 0.25F, out[2]);
      out[3] = multiply_add(difference3, V{} + 0.125F, out[3]);
    }
  }
};

/// The transpose of OutputStep, for the gradient by the output.
template <int kSide>
struct GradientStep {
  static constexpr int kIn = kOutput;
  static constexpr int kOut = kSide;
  template <class V>
  static void apply(const V* g, V* out) {
    const V even = g[0] + g[2];
    const V odd = g[1] + g[3];
    const V even2 = multiply_add(g[2], V{} + 4.0F, g[0]);
    const V odd2 = multiply_add(g[3], V{} + 4.0F, g[1]);
    out[0] = g[0];
    out[1] = even + odd;
    out[2] = even - odd;
    out[3] = multiply_add(odd2, V{} + 2.0F, even2);
    out[4] = subtract_product(odd2, V{} + 2.0F, even2);
    if constexpr (kSide == 8) {
      const V even3 = multiply_add(g[2], V{} + 0.25F, g[0]);
      const V odd3 = multiply_add(g[3], V{} + 0.25F, g[1]);
      out[5] = multiply_add(odd3, V{} + 0.5F, even3);
      out[6] = subtract_product(odd3, V{} + 0.5F, even3);
    }
    out[kSide - 1] = g[3];
  }
};

template <int kKernel>
struct WeightStep {
  static constexpr int kIn = kKernel;
  static constexpr int kOut = side_of(kKernel);
  template <class V>
  static void apply(const V* w, V* out) {
    if constexpr (kKernel == 3) {
      const V even = w[0] + w[2], even2 = multiply_add(w[2], V{} + 4.0F, w[0]), twice = w[1] + w[1];
      out[0] = w[0] * 0.25F;
      out[1] = (even + w[1]) * (-1.0F / 6.0F);
      out[2] = (even - w[1]) * (-1.0F / 6.0F);
      out[3] = (even2 + twice) * (1.0F / 24.0F);
      out[4] = (even2 - twice) * (1.0F / 24.0F);
      out[5] = w[2];
    } else {
      const V even = w[0] + w[2] + w[4];
      const V odd = w[1] + w[3];
      const V even2 = multiply_add(multiply_add(w[4], V{} + 4.0F, w[2]), V{} + 4.0F, w[0]);
      const V odd2 = multiply_add(w[3], V{} + 4.0F, w[1]) * 2.0F;
      const V even3 = multiply_add(multiply_add(w[4], V{} + 0.25F, w[2]), V{} + 0.25F, w[0]);
      const V odd3 = multiply_add(w[3], V{} + 0.25F, w[1]) * 0.5F;
      out[0] = w[0];
      out[1] = (even + odd) * (-2.0F / 9.0F);
      out[2] = (even - odd) * (-2.0F / 9.0F);
      out[3] = (even2 + odd2) * (1.0F / 90.0F);
      out[4] = (even2 - odd2) * (1.0F / 90.0F);
      out[5] = (even3 + odd3) * (32.0F / 45.0F);
      out[6] = (even3 - odd3) * (32.0F / 45.0F);
      out[7] = w[4];
    }
  }
};

/// The transpose of WeightStep.
template <int kKernel>
struct WeightGradientStep {
  static constexpr int kIn = side_of(kKernel);
  static constexpr int kOut = kKernel;
  template <class V>
  static void apply(const V* u, V* out) {
    if constexpr (kKernel == 3) {
      const V sum = (u[1] + u[2]) * (-1.0F / 6.0F);
      const V difference = (u[1] - u[2]) * (-1.0F / 6.0F);
      const V sum2 = (u[3] + u[4]) * (1.0F / 24.0F);
      const V difference2 = (u[3] - u[4]) * (1.0F / 24.0F);
      out[0] = multiply_add(u[0], V{} + 0.25F, sum + sum2);
      out[1] = multiply_add(difference2, V{} + 2.0F, difference);
      out[2] = multiply_add(sum2, V{} + 4.0F, sum) + u[5];
    } else {
      const V sum = (u[1] + u[2]) * (-2.0F / 9.0F);
      const V difference = (u[1] - u[2]) * (-2.0F / 9.0F);
      const V sum2 = (u[3] + u[4]) * (1.0F / 90.0F);
      const V difference2 = (u[3] - u[4]) * (1.0F / 90.0F);
      const V sum3 = (u[5] + u[6]) * (32.0F / 45.0F);
      const V difference3 = (u[5] - u[6]) * (32.0F / 45.0F);
      out[0] = u[0] + sum + sum2 + sum3;
      out[1] = multiply_add(difference3, V{} + 0.5F, multiply_add(difference2, V{} + 2.0F, difference));
      out[2] = multiply_add(sum3, V{} + 0.25F, multiply_add(sum2, V{} + 4.0F, sum));
      out[3] = multiply_add(difference3, V{} + 0.125F, multiply_add(difference2, V{} + 8.0F, difference));
      out[4] = multiply_add(sum3, V{} + 0.0625F, multiply_add(sum2, V{} + 16.0F, sum)) + u[7];
    }
  }
};

/// A step along the columns, then along the rows: take(y, x) returns a value, give(y, x, value) receives one.
template <int kLanes, class Step, class Take, class Give>
[[gnu::always_inline]] inline void transform(Take&& take, Give&& give) {
  Vector<kLanes> middle[Step::kOut][Step::kIn];
#pragma GCC unroll 8
  for (int x = 0; x < Step::kIn; ++x) {
    Vector<kLanes> in[Step::kIn], out[Step::kOut];
#pragma GCC unroll 8
    for (int y = 0; y < Step::kIn; ++y) in[y] = take(y, x);
    Step::apply(in, out);
#pragma GCC unroll 8
    for (int y = 0; y < Step::kOut; ++y) middle[y][x] = out[y];
  }
#pragma GCC unroll 8
  for (int y = 0; y < Step::kOut; ++y) {
    Vector<kLanes> out[Step::kOut];
    Step::apply(middle[y], out);
#pragma GCC unroll 8
    for (int x = 0; x < Step::kOut; ++x) give(y, x, out[x]);
  }
}

}  // namespace
}  // namespace lockstep::kernels
