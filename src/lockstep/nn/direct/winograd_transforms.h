// Winograd's algorithm for six outputs and kernel points together, at 0, 1, -1, 2, -2 and infinity: an output tile of 4 with a kernel of 3,
// or of 2 with a kernel of 5. Both share the transform of the input.
#pragma once

#include "lockstep/nn/direct/vectors.h"

namespace lockstep::nn::direct {
namespace {

constexpr int kSide = 6;
constexpr int kPoints = kSide * kSide;

// Each step transforms one column or row of kIn values into kOut.

struct InputStep {
  static constexpr int kIn = kSide;
  static constexpr int kOut = kSide;
  template <class V>
  static void apply(const V* d, V* out) {
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
  }
};

template <int kOutput>
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
    if constexpr (kOutput == 2) {
      out[1] = multiply_add(difference2, V{} + 2.0F, difference) + m[5];
    } else {
      out[1] = multiply_add(difference2, V{} + 2.0F, difference);
      out[2] = multiply_add(sum2, V{} + 4.0F, sum);
      out[3] = multiply_add(difference2, V{} + 8.0F, difference) + m[5];
    }
  }
};

/// The transpose of OutputStep, for the gradient by the output.
template <int kOutput>
struct GradientStep {
  static constexpr int kIn = kOutput;
  static constexpr int kOut = kSide;
  template <class V>
  static void apply(const V* g, V* out) {
    out[0] = g[0];
    if constexpr (kOutput == 2) {
      out[1] = g[0] + g[1];
      out[2] = g[0] - g[1];
      out[3] = multiply_add(g[1], V{} + 2.0F, g[0]);
      out[4] = subtract_product(g[1], V{} + 2.0F, g[0]);
    } else {
      const V even = g[0] + g[2];
      const V odd = g[1] + g[3];
      const V even2 = multiply_add(g[2], V{} + 4.0F, g[0]);
      const V odd2 = multiply_add(g[3], V{} + 4.0F, g[1]);
      out[1] = even + odd;
      out[2] = even - odd;
      out[3] = multiply_add(odd2, V{} + 2.0F, even2);
      out[4] = subtract_product(odd2, V{} + 2.0F, even2);
    }
    out[5] = g[kOutput - 1];
  }
};

template <int kKernel>
struct WeightStep {
  static constexpr int kIn = kKernel;
  static constexpr int kOut = kSide;
  template <class V>
  static void apply(const V* w, V* out) {
    V even = w[0] + w[2], even2 = multiply_add(w[2], V{} + 4.0F, w[0]);
    V odd = w[1], odd2 = w[1] + w[1];
    if constexpr (kKernel == 5) {
      even += w[4];
      even2 = multiply_add(w[4], V{} + 16.0F, even2);
      odd += w[3];
      odd2 = multiply_add(w[3], V{} + 8.0F, odd2);
    }
    out[0] = w[0] * 0.25F;
    out[1] = (even + odd) * (-1.0F / 6.0F);
    out[2] = (even - odd) * (-1.0F / 6.0F);
    out[3] = (even2 + odd2) * (1.0F / 24.0F);
    out[4] = (even2 - odd2) * (1.0F / 24.0F);
    out[5] = w[kKernel - 1];
  }
};

/// The transpose of WeightStep.
template <int kKernel>
struct WeightGradientStep {
  static constexpr int kIn = kSide;
  static constexpr int kOut = kKernel;
  template <class V>
  static void apply(const V* u, V* out) {
    const V sum = (u[1] + u[2]) * (-1.0F / 6.0F);
    const V difference = (u[1] - u[2]) * (-1.0F / 6.0F);
    const V sum2 = (u[3] + u[4]) * (1.0F / 24.0F);
    const V difference2 = (u[3] - u[4]) * (1.0F / 24.0F);
    out[0] = multiply_add(u[0], V{} + 0.25F, sum + sum2);
    out[1] = multiply_add(difference2, V{} + 2.0F, difference);
    out[2] = multiply_add(sum2, V{} + 4.0F, sum);
    if constexpr (kKernel == 5) {
      out[3] = multiply_add(difference2, V{} + 8.0F, difference);
      out[4] = multiply_add(sum2, V{} + 16.0F, sum);
    }
    out[kKernel - 1] += u[5];
  }
};

/// A step along the columns, then along the rows: take(y, x) gives a value, give(y, x, value) receives one.
template <int kLanes, class Step, class Take, class Give>
inline void transform(Take&& take, Give&& give) {
  Vector<kLanes> middle[Step::kOut][Step::kIn];
#pragma GCC unroll 6
  for (int x = 0; x < Step::kIn; ++x) {
    Vector<kLanes> in[Step::kIn], out[Step::kOut];
#pragma GCC unroll 6
    for (int y = 0; y < Step::kIn; ++y) in[y] = take(y, x);
    Step::apply(in, out);
#pragma GCC unroll 6
    for (int y = 0; y < Step::kOut; ++y) middle[y][x] = out[y];
  }
#pragma GCC unroll 6
  for (int y = 0; y < Step::kOut; ++y) {
    Vector<kLanes> out[Step::kOut];
    Step::apply(middle[y], out);
#pragma GCC unroll 6
    for (int x = 0; x < Step::kOut; ++x) give(y, x, out[x]);
  }
}

}  // namespace
}  // namespace lockstep::nn::direct
