// Vectors of floats for the kernels, with the instruction set for which the including file is compiled.
// Everything is in an unnamed namespace, because files that are compiled for different instruction sets must
// not share functions.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "lockstep/kernels/channel_kernels.h"

namespace lockstep::kernels {
namespace {

using kernels::BFloat16;

#if defined(__AVX512F__)
constexpr int kWidest = 16;  // floats in the widest vector
constexpr bool kManyRegisters = true;
#elif defined(__AVX2__)
constexpr int kWidest = 8;
constexpr bool kManyRegisters = false;
#else
constexpr int kWidest = 4;
constexpr bool kManyRegisters = false;
#endif

template <int kLanes>
struct VectorTypes {
  typedef float Floats __attribute__((vector_size(kLanes * 4)));
  typedef uint32_t Words __attribute__((vector_size(kLanes * 4)));
  typedef uint16_t Halves __attribute__((vector_size(kLanes * 2)));
};

template <int kLanes>
using Vector = typename VectorTypes<kLanes>::Floats;

template <int kLanes>
inline Vector<kLanes> splat(float value) {
  return value - Vector<kLanes>{};
}

/// The larger one of each pair; `value` if one of them is a NaN.
template <class V>
inline V at_least(V value, V least) {
  return value < least ? least : value;
}

/// a * b + c, rounded once if the processor has the instruction.
#if defined(__FMA__)
inline Vector<4> multiply_add(Vector<4> a, Vector<4> b, Vector<4> c) { return _mm_fmadd_ps(a, b, c); }
inline Vector<8> multiply_add(Vector<8> a, Vector<8> b, Vector<8> c) { return _mm256_fmadd_ps(a, b, c); }
/// c - a * b, likewise
inline Vector<4> subtract_product(Vector<4> a, Vector<4> b, Vector<4> c) { return _mm_fnmadd_ps(a, b, c); }
inline Vector<8> subtract_product(Vector<8> a, Vector<8> b, Vector<8> c) { return _mm256_fnmadd_ps(a, b, c); }
#else
inline Vector<4> multiply_add(Vector<4> a, Vector<4> b, Vector<4> c) { return a * b + c; }
inline Vector<4> subtract_product(Vector<4> a, Vector<4> b, Vector<4> c) { return c - a * b; }
#endif
#if defined(__AVX512F__)
inline Vector<16> multiply_add(Vector<16> a, Vector<16> b, Vector<16> c) { return _mm512_fmadd_ps(a, b, c); }
inline Vector<16> subtract_product(Vector<16> a, Vector<16> b, Vector<16> c) {
  return _mm512_fnmadd_ps(a, b, c);
}
#endif

template <class Type>
inline Type load_bytes(const void* source) {
  Type result;
  std::memcpy(&result, source, sizeof(result));
  return result;
}

template <int kLanes>
inline Vector<kLanes> load(const float* source) {
  return load_bytes<Vector<kLanes>>(source);
}

template <int kLanes>
inline void store(Vector<kLanes> value, float* target) {
  std::memcpy(target, &value, sizeof(value));
}

template <int kLanes>
inline Vector<kLanes> load(const BFloat16* source) {
  using Types = VectorTypes<kLanes>;
  const auto bits = __builtin_convertvector(load_bytes<typename Types::Halves>(source), typename Types::Words)
                    << 16;
  return reinterpret_cast<Vector<kLanes>>(bits);
}

// Rounds to nearest, ties to even. A NaN stays a NaN, because its quiet bit is set.
template <int kLanes>
inline void store(Vector<kLanes> value, BFloat16* target) {
  using Types = VectorTypes<kLanes>;
  using Words = typename Types::Words;
  const Words bits = reinterpret_cast<Words>(value);
  const Words rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const Words nan = (bits >> 16) | 0x40;
  const auto halves =
      __builtin_convertvector((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded, typename Types::Halves);
  std::memcpy(target, &halves, sizeof(halves));
}

#if defined(__AVX512BF16__)
/// In one instruction; numbers below 2^-126 become zero, as in products of the matrix unit.
template <>
inline void store<16>(Vector<16> value, BFloat16* target) {
  const __m256bh halves = _mm512_cvtneps_pbh(value);
  std::memcpy(target, &halves, sizeof(halves));
}
#endif

/// Stores values that were loaded as T, or zeros, so nothing is rounded.
template <int kLanes>
inline void store_exact(Vector<kLanes> value, float* target) {
  store<kLanes>(value, target);
}
template <int kLanes>
inline void store_exact(Vector<kLanes> value, BFloat16* target) {
  using Types = VectorTypes<kLanes>;
  const auto halves =
      __builtin_convertvector(reinterpret_cast<typename Types::Words>(value) >> 16, typename Types::Halves);
  std::memcpy(target, &halves, sizeof(halves));
}

/// Copies `count` values, less than twice kSize, in pieces of constant sizes.
template <int kSize, class T>
inline void copy_some(const T* source, T* target, int64_t count) {
  if (count & kSize) {
    std::memcpy(target, source, kSize * sizeof(T));
    source += kSize;
    target += kSize;
  }
  if constexpr (kSize > 1) copy_some<kSize / 2>(source, target, count);
}

/// The first `count` (1 to kLanes - 1) values; the others are zero.
template <int kLanes, class T>
inline Vector<kLanes> load_some(const T* source, int64_t count) {
  T values[kLanes] = {};
  copy_some<kLanes / 2>(source, values, count);
  return load<kLanes>(values);
}

template <int kLanes, class T>
inline void store_some(Vector<kLanes> value, T* target, int64_t count) {
  T values[kLanes];
  store<kLanes>(value, values);
  copy_some<kLanes / 2>(values, target, count);
}

#if defined(__AVX512F__)
inline __mmask16 first(int64_t count) { return static_cast<__mmask16>((1U << count) - 1U); }
template <>
inline Vector<8> load_some<8, float>(const float* source, int64_t count) {
  return _mm256_maskz_loadu_ps(static_cast<__mmask8>(first(count)), source);
}
template <>
inline Vector<16> load_some<16, float>(const float* source, int64_t count) {
  return _mm512_maskz_loadu_ps(first(count), source);
}
template <>
inline void store_some<8, float>(Vector<8> value, float* target, int64_t count) {
  _mm256_mask_storeu_ps(target, static_cast<__mmask8>(first(count)), value);
}
template <>
inline void store_some<16, float>(Vector<16> value, float* target, int64_t count) {
  _mm512_mask_storeu_ps(target, first(count), value);
}
template <>
inline Vector<8> load_some<8, BFloat16>(const BFloat16* source, int64_t count) {
  BFloat16 values[8];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(values),
                   _mm_maskz_loadu_epi16(static_cast<__mmask8>(first(count)), source));
  return load<8>(values);
}
template <>
inline Vector<16> load_some<16, BFloat16>(const BFloat16* source, int64_t count) {
  BFloat16 values[16];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(values), _mm256_maskz_loadu_epi16(first(count), source));
  return load<16>(values);
}
template <>
inline void store_some<8, BFloat16>(Vector<8> value, BFloat16* target, int64_t count) {
  BFloat16 values[8];
  store<8>(value, values);
  _mm_mask_storeu_epi16(target, static_cast<__mmask8>(first(count)),
                        _mm_loadu_si128(reinterpret_cast<const __m128i*>(values)));
}
template <>
inline void store_some<16, BFloat16>(Vector<16> value, BFloat16* target, int64_t count) {
  BFloat16 values[16];
  store<16>(value, values);
  _mm256_mask_storeu_epi16(target, first(count),
                           _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values)));
}
#elif defined(__AVX2__)
inline __m256i first(int64_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
template <>
inline Vector<8> load_some<8, float>(const float* source, int64_t count) {
  return _mm256_maskload_ps(source, first(count));
}
#endif

/// Transposes a square of numbers, with a row in each vector. Each step shuffles the first half of the rows
/// with the second half.
template <int kSide, class Row>
inline void transpose_square(Row (&square)[kSide]) {
  using Number = std::remove_reference_t<decltype(square[0][0])>;
  Row low{}, high{};
  for (int i = 0; i < kSide; ++i) {
    low[i] = static_cast<Number>(i % 2 * kSide + i / 2);
    high[i] = static_cast<Number>(low[i] + kSide / 2);
  }
#pragma GCC unroll 4
  for (int step = 1; step < kSide; step *= 2) {
    Row next[kSide];
#pragma GCC unroll 8
    for (int i = 0; i < kSide / 2; ++i) {
      next[2 * i] = __builtin_shuffle(square[i], square[i + kSide / 2], low);
      next[2 * i + 1] = __builtin_shuffle(square[i], square[i + kSide / 2], high);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kSide; ++i) square[i] = next[i];
  }
}

constexpr bool kToWrite = true;

/// Prefetches the cache line that is some values ahead. The processor also prefetches, but too late if
/// several arrays are read at once. The address may be after the end of the array.
template <bool kWrite = false, class T>
inline void fetch_ahead(const T* place) {
  constexpr int64_t kAhead = 640;
  __builtin_prefetch(place + kAhead, kWrite);
}

/// The same for `count` values.
template <bool kWrite = false, class T>
inline void fetch_all_ahead(const T* values, int64_t count) {
  for (int64_t i = 0; i < count; i += 64 / static_cast<int64_t>(sizeof(T))) fetch_ahead<kWrite>(values + i);
}

template <int kLanes, class T>
inline void copy_values(const T* source, int64_t count, float* target) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store<kLanes>(load<kLanes>(source + i), target + i);
  if (i < count) store_some<kLanes>(load_some<kLanes>(source + i, count - i), target + i, count - i);
}

inline float to_float(float value) { return value; }
inline float to_float(BFloat16 value) {
  return load_bytes<float>(&static_cast<const uint32_t&>(static_cast<uint32_t>(value.bits) << 16));
}

constexpr int64_t divided_up(int64_t value, int64_t by) { return (value + by - 1) / by; }
constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t larger(int64_t a, int64_t b) { return a < b ? b : a; }

}  // namespace
}  // namespace lockstep::kernels
