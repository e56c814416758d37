// The text of the linear kernels, compiled once per instruction set; LOCKSTEP_LINEAR_KERNELS is the name of
// the function that returns them.
#pragma once

#include "lockstep/kernels/linear_kernels.h"
#include "lockstep/kernels/internal/linear_tiles.h"
#include "lockstep/kernels/internal/node_sums.h"

namespace lockstep::kernels {
namespace {

template <int kTileRows, int kColumns, class T>
void forward_tile(const LinearShape& shape, const T* input, const T* weight, const T* bias, T* output) {
  Wide sums[kTileRows][kColumns] = {};
  over_features(shape.features, [&](int64_t place, auto count) {
    Wide columns[kColumns];
#pragma GCC unroll 4
    for (int k = 0; k < kColumns; ++k) columns[k] = load_part(weight + k * shape.features + place, count);
#pragma GCC unroll 4
    for (int n = 0; n < kTileRows; ++n) {
      const Wide row = load_part(input + n * shape.features + place, count);
#pragma GCC unroll 4
      for (int k = 0; k < kColumns; ++k) sums[n][k] = multiply_add(row, columns[k], sums[n][k]);
    }
  });
  // Unrolled, or g++ stores the sums in every step.
#pragma GCC unroll 4
  for (int n = 0; n < kTileRows; ++n, output += shape.outputs) {
    if constexpr (kColumns == kDots) {
      store<kDots>(sums_of(sums[n]) + (bias == nullptr ? Vector<kDots>{} : load<kDots>(bias)), output);
    } else {
#pragma GCC unroll 4
      for (int k = 0; k < kColumns; ++k) {
        store_some<kWidest>(splat<kWidest>(sum_of(sums[n][k]) + (bias == nullptr ? 0.0F : to_float(bias[k]))),
                            output + k, 1);
      }
    }
  }
}

template <class T>
void linear_forward(const LinearShape& shape, const T* input, const T* weight, const T* bias, T* output) {
  in_tiles<kDots>(shape.outputs, [&](int64_t k, auto columns) {
    in_tiles<kDots>(shape.batch, [&](int64_t n, auto rows) {
      forward_tile<rows, columns>(shape, input + n * shape.features, weight + k * shape.features,
                                  bias == nullptr ? nullptr : bias + k, output + n * shape.outputs + k);
    });
  });
}

// A block of the weight stays in the second cache, and its pages are few, while all samples are multiplied by
// it. Between blocks the sums are in the result, where only float32 keeps all their bits.
template <class T>
void linear_input_gradient(const LinearShape& shape, const T* gradient, const T* weight, T* input_gradient) {
  const int64_t most = std::is_same_v<T, float> ? kOutputsOfBlock : shape.outputs;
  over_blocks(shape.features, [&](int64_t begin, int64_t features) {
    for (int64_t first = 0; first < shape.outputs; first += most) {
      const int64_t last = smaller(first + most, shape.outputs);
      in_tiles<kRows>(shape.batch, [&](int64_t n, auto rows) {
        over_strips(features, [&](int64_t place, auto vectors, auto count) {
          T* target = input_gradient + n * shape.features + begin + place;
          Sums<rows, vectors> sums{};
          if (first > 0) sums.read(target, shape.features, count);
          fetch_next_strip<true, rows, vectors>(target, shape.features);
          for (int64_t k = first; k < last; ++k)
            sums.add(gradient + n * shape.outputs + k, shape.outputs,
                     weight + k * shape.features + begin + place, count);
          sums.write(target, shape.features, count);
        });
      });
    }
  });
}

template <bool kAdd, class T>
void linear_weight_gradient(const LinearShape& shape, const T* gradient, const T* input,
                            float* weight_gradient) {
  const int64_t samples = shape.batch / shape.shards;
  // With few samples, writing takes much of the time: eight rows at once take 1.5 times as long. Two rows
  // leave registers for the sums of some shards.
  constexpr int kFewRows = 4, kFewShards = 2;
  over_blocks(shape.features, [&](int64_t begin, int64_t features) {
    in_tiles<kFewRows>(shape.outputs, [&](int64_t k, auto rows) {
      over_strips(features, [&](int64_t place, auto vectors, auto count) {
        const auto sums_of_shard = [&](int64_t shard) {
          Sums<rows, vectors> sums{};
          for (int64_t n = shard * samples; n < (shard + 1) * samples; ++n) {
            const T* right = input + n * shape.features + begin + place;
            fetch_next_strip<false, 1, vectors>(right, shape.features);
            sums.add(gradient + n * shape.outputs + k, 1, right, count);
          }
          return sums;
        };
        const auto sums = sum_in_registers<kFewShards>(0, shape.shards, sums_of_shard);
        sums.template write<kAdd>(weight_gradient + k * shape.features + begin + place, shape.features,
                                  count);
      });
    });
  });
}

template <class T>
constexpr LinearKernels<T> kLinearKernels{&linear_forward<T>,
                                          &linear_input_gradient<T>,
                                          &linear_weight_gradient<false, T>,
                                          &linear_weight_gradient<true, T>,
                                          &linear_bias_gradient<T>,
                                          &transpose<T>};

}  // namespace

const LinearKernels<float>& LOCKSTEP_LINEAR_KERNELS(float) { return kLinearKernels<float>; }
const LinearKernels<BFloat16>& LOCKSTEP_LINEAR_KERNELS(BFloat16) { return kLinearKernels<BFloat16>; }

}  // namespace lockstep::kernels
