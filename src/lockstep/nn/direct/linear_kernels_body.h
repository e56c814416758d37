// The text of the linear kernels, compiled once per instruction set; LOCKSTEP_LINEAR_KERNELS names the function that returns them.
#pragma once

#include <utility>

#include "lockstep/nn/direct/linear_kernels.h"
#include "lockstep/nn/direct/vectors.h"

namespace lockstep::nn::direct {
namespace {

using Wide = Vector<kWidest>;
constexpr int64_t kTile = 4;

template <int... kCounts, class Work>
void with_count(int64_t count, Work&& work, std::integer_sequence<int, kCounts...>) {
  (void)((count == kCounts + 1 && (work(std::integral_constant<int, kCounts + 1>{}), true)) || ...);
}

/// work(begin, size) over [0, count) in parts of kTile, the size as a compile-time constant.
template <class Work>
void in_tiles(int64_t count, Work&& work) {
  for (int64_t begin = 0; begin < count; begin += kTile) {
    with_count(smaller(kTile, count - begin), [&](auto size) { work(begin, size); }, std::make_integer_sequence<int, kTile>{});
  }
}

inline float sum_of(Wide values) {
  for (int half = kWidest / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) values[i] += values[i + half];
  }
  return values[0];
}

/// work(place, count): whole vectors of the features, then what is left of them.
template <class Work>
void over_features(int64_t features, Work&& work) {
  int64_t place = 0;
  for (; place + kWidest <= features; place += kWidest) work(place, std::integral_constant<int, kWidest>{});
  if (place < features) work(place, features - place);
}

template <class T, class Count>
inline Wide load_part(const T* source, Count count) {
  if constexpr (std::is_same_v<Count, std::integral_constant<int, kWidest>>) {
    return load<kWidest>(source);
  } else {
    return load_some<kWidest>(source, count);
  }
}

template <class T, class Count>
inline void store_part(Wide value, T* target, Count count) {
  if constexpr (std::is_same_v<Count, std::integral_constant<int, kWidest>>) {
    store<kWidest>(value, target);
  } else {
    store_some<kWidest>(value, target, count);
  }
}

template <int kRows, int kColumns, class T>
void forward_tile(const LinearShape& shape, const T* input, const T* weight, const T* bias, T* output) {
  Wide sums[kRows][kColumns] = {};
  over_features(shape.features, [&](int64_t place, auto count) {
    Wide columns[kColumns];
    for (int k = 0; k < kColumns; ++k) columns[k] = load_part(weight + k * shape.features + place, count);
    for (int n = 0; n < kRows; ++n) {
      const Wide row = load_part(input + n * shape.features + place, count);
      for (int k = 0; k < kColumns; ++k) sums[n][k] = multiply_add(row, columns[k], sums[n][k]);
    }
  });
  for (int n = 0; n < kRows; ++n) {
    for (int k = 0; k < kColumns; ++k) {
      const Wide sum = splat<kWidest>(sum_of(sums[n][k]) + (bias == nullptr ? 0.0F : to_float(bias[k])));
      store_some<kWidest>(sum, output + n * shape.outputs + k, 1);
    }
  }
}

template <class T>
void linear_forward(const LinearShape& shape, const T* input, const T* weight, const T* bias, T* output) {
  in_tiles(shape.outputs, [&](int64_t k, auto columns) {
    in_tiles(shape.batch, [&](int64_t n, auto rows) {
      forward_tile<rows, columns>(shape, input + n * shape.features, weight + k * shape.features, bias == nullptr ? nullptr : bias + k, output + n * shape.outputs + k);
    });
  });
}

template <class T>
void linear_input_gradient(const LinearShape& shape, const T* gradient, const T* weight, T* input_gradient) {
  over_features(shape.features, [&](int64_t place, auto count) {
    in_tiles(shape.batch, [&](int64_t n, auto rows) {
      Wide sums[rows] = {};
      for (int64_t k = 0; k < shape.outputs; ++k) {
        const Wide column = load_part(weight + k * shape.features + place, count);
        for (int i = 0; i < rows; ++i) sums[i] = multiply_add(splat<kWidest>(to_float(gradient[(n + i) * shape.outputs + k])), column, sums[i]);
      }
      for (int i = 0; i < rows; ++i) store_part(sums[i], input_gradient + (n + i) * shape.features + place, count);
    });
  });
}

template <class T>
void linear_weight_gradient(const LinearShape& shape, const T* gradient, const T* input, float* weight_gradient, float* bias_gradient) {
  over_features(shape.features, [&](int64_t place, auto count) {
    in_tiles(shape.outputs, [&](int64_t k, auto columns) {
      Wide sums[columns] = {};
      for (int64_t n = 0; n < shape.batch; ++n) {
        const Wide row = load_part(input + n * shape.features + place, count);
        for (int i = 0; i < columns; ++i) sums[i] = multiply_add(splat<kWidest>(to_float(gradient[n * shape.outputs + k + i])), row, sums[i]);
      }
      for (int i = 0; i < columns; ++i) store_part(sums[i], weight_gradient + (k + i) * shape.features + place, count);
    });
  });
  if (bias_gradient == nullptr) return;
  for (int64_t k = 0; k < shape.outputs; ++k) {
    float sum = 0;
    for (int64_t n = 0; n < shape.batch; ++n) sum += to_float(gradient[n * shape.outputs + k]);
    bias_gradient[k] = sum;
  }
}

template <class T>
void turn(const T* matrices, int64_t count, int64_t rows, int64_t columns, T* result) {
  constexpr int64_t kBlock = 16;
  for (const T* end = matrices + count * rows * columns; matrices != end; matrices += rows * columns, result += rows * columns) {
    for (int64_t first = 0; first < columns; first += kBlock) {
      const int64_t size = smaller(kBlock, columns - first);
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t i = 0; i < size; ++i) result[(first + i) * rows + row] = matrices[row * columns + first + i];
      }
    }
  }
}

template <class T>
constexpr LinearKernels<T> kLinearKernels{&linear_forward<T>, &linear_input_gradient<T>, &linear_weight_gradient<T>, &turn<T>};

}  // namespace

const LinearKernels<float>& LOCKSTEP_LINEAR_KERNELS(float) { return kLinearKernels<float>; }
const LinearKernels<BFloat16>& LOCKSTEP_LINEAR_KERNELS(BFloat16) { return kLinearKernels<BFloat16>; }

}  // namespace lockstep::nn::direct
