// The text of the pooling kernels, compiled once per instruction set; LOCKSTEP_POOL_KERNELS is the name of
// the function that returns them.
#pragma once

#include <type_traits>

#include "lockstep/kernels/pool_kernels.h"
#include "lockstep/kernels/internal/vectors.h"

namespace lockstep::kernels {
namespace {

using Floats = Vector<kWidest>;
typedef int32_t Integers __attribute__((vector_size(kWidest * 4)));
typedef uint8_t Bytes __attribute__((vector_size(kWidest)));
typedef int16_t Halves __attribute__((vector_size(kWidest * 4)));  // twice as many
typedef uint16_t UnsignedHalves __attribute__((vector_size(kWidest * 4)));

constexpr int32_t kCut = 255;  // the place of no point

/// Calls work(channel, count) for whole vectors of the channels, with their count as a compile-time constant.
/// If the channels do not fill the last vector, it contains some channels a second time, because a part of a
/// vector takes several times as long. Fewer channels than a vector has are one part.
template <class Work>
inline void each_vector(int64_t channels, Work&& work) {
  int64_t c = 0;
  for (; c + kWidest <= channels; c += kWidest) work(c, std::integral_constant<int, kWidest>{});
  if (c == channels) return;
  if (c == 0) return work(c, channels);
  work(channels - kWidest, std::integral_constant<int, kWidest>{});
}

template <class T, class Count>
inline Floats load_part(const T* source, Count count) {
  if constexpr (std::is_integral_v<Count>) {
    return load_some<kWidest>(source, count);
  } else {
    return load<kWidest>(source);
  }
}

template <class T, class Count>
inline void store_part(Floats value, T* target, Count count) {
  if constexpr (std::is_integral_v<Count>) {
    store_some<kWidest>(value, target, count);
  } else {
    store<kWidest>(value, target);
  }
}

template <class T, class Count>
inline void store_exact_part(Floats value, T* target, Count count) {
  if constexpr (std::is_integral_v<Count>) {
    T values[kWidest];
    store_exact<kWidest>(value, values);
    copy_some<kWidest / 2>(values, target, count);
  } else {
    store_exact<kWidest>(value, target);
  }
}

// __builtin_convertvector converts one number at a time. Without the mask g++ 12 warns of an uninitialised
// number in its own header.
#if defined(__AVX512F__)
constexpr __mmask16 kAll = 0xffff;
#endif

inline Integers widen(const uint8_t* source) {
#if defined(__AVX512F__)
  return reinterpret_cast<Integers>(
      _mm512_maskz_cvtepu8_epi32(kAll, _mm_loadu_si128(reinterpret_cast<const __m128i*>(source))));
#elif defined(__AVX2__)
  return reinterpret_cast<Integers>(
      _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(source))));
#else
  return __builtin_convertvector(load_bytes<Bytes>(source), Integers);
#endif
}

// Numbers from 0 to 255.
inline void narrow(Integers value, uint8_t* target) {
#if defined(__AVX512F__)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(target),
                   _mm512_maskz_cvtepi32_epi8(kAll, reinterpret_cast<__m512i>(value)));
#elif defined(__AVX2__)
  const __m128i low = _mm256_castsi256_si128(reinterpret_cast<__m256i>(value)),
                high = _mm256_extracti128_si256(reinterpret_cast<__m256i>(value), 1);
  const __m128i halves = _mm_packus_epi32(low, high);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(target), _mm_packus_epi16(halves, halves));
#else
  const Bytes bytes = __builtin_convertvector(value, Bytes);
  std::memcpy(target, &bytes, kWidest);
#endif
}

inline void narrow(Halves value, uint8_t* target) {
#if defined(__AVX512F__)
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(target),
                      _mm512_maskz_cvtepi16_epi8(~__mmask32{}, reinterpret_cast<__m512i>(value)));
#else
  for (int lane = 0; lane < 2 * kWidest; ++lane) target[lane] = static_cast<uint8_t>(value[lane]);
#endif
}

// Whether a comparison is true for one of the numbers.
inline bool any(Halves compared) {
  uint64_t words[sizeof compared / sizeof(uint64_t)], all = 0;
  std::memcpy(words, &compared, sizeof compared);
  for (const uint64_t word : words) all |= word;
  return all != 0;
}

template <class Count>
inline Integers load_bytes_part(const uint8_t* source, Count count) {
  if constexpr (std::is_integral_v<Count>) {
    uint8_t values[kWidest] = {};
    copy_some<kWidest / 2>(source, values, count);
    return widen(values);
  } else {
    return widen(source);
  }
}

template <class Count>
inline void store_bytes_part(Integers value, uint8_t* target, Count count) {
  if constexpr (std::is_integral_v<Count>) {
    uint8_t values[kWidest];
    narrow(value, values);
    copy_some<kWidest / 2>(values, target, count);
  } else {
    narrow(value, target);
  }
}

/// The part of a window that is in the image, in one dimension: its points [begin, end), the first one at
/// `origin` + begin.
struct Span {
  int64_t origin;
  int64_t begin;
  int64_t end;

  Span(int64_t place, int64_t stride, int64_t padding, int64_t kernel, int64_t size)
      : origin(place * stride - padding), begin(larger(0, -origin)), end(smaller(kernel, size - origin)) {}
};

/// One row of outputs: what to read, and where the results go.
template <class T>
struct PoolRow {
  const PoolShape& shape;
  Span rows;       ///< of the windows
  const T* image;  ///< [height, width, channels]
  T* output;       ///< [output_width, channels]
  uint8_t* largest;

  /// Calls work(window, columns, x): the first point of the window, which may be outside of the image.
  template <class Work>
  void each_window(Work&& work) const {
    for (int64_t x = 0; x < shape.output_width; ++x) {
      const Span columns(x, shape.stride_width, shape.padding_width, shape.kernel_width, shape.width);
      work(image + (rows.origin * shape.width + columns.origin) * shape.channels, columns, x);
    }
  }

  /// Calls work(offset, place) for the points of a window that are in the image.
  template <class Work>
  void each_point(const Span& columns, Work&& work) const {
    for (int64_t ky = rows.begin; ky < rows.end; ++ky) {
      for (int64_t kx = columns.begin; kx < columns.end; ++kx)
        work((ky * shape.width + kx) * shape.channels, ky * shape.kernel_width + kx);
    }
  }
};

template <class T>
void pool_row(const PoolRow<T>& row) {
  const PoolShape& shape = row.shape;
  row.each_window([&](const T* window, const Span& columns, int64_t x) {
    each_vector(shape.channels, [&](int64_t c, auto count) {
      const int64_t first_point = (row.rows.begin * shape.width + columns.begin) * shape.channels;
      Floats best = load_part(window + first_point + c, count);
      Integers place = Integers{} + static_cast<int32_t>(row.rows.begin * shape.kernel_width + columns.begin);
      row.each_point(columns, [&](int64_t offset, int64_t point) {
        const Floats value = load_part(window + offset + c, count);
        const Integers better = (value > best) | (value != value);
        best = better ? value : best;
        place = better ? Integers{} + static_cast<int32_t>(point) : place;
      });
      if (shape.relu) {
        place = best <= 0.0F ? Integers{} + kCut : place;
        best = best <= 0.0F ? Floats{} : best;
      }
      store_exact_part(best, row.output + x * shape.channels + c, count);
      store_bytes_part(place, row.largest + x * shape.channels + c, count);
    });
  });
}

/// The same by the bits of bfloat16 numbers, of which a vector has twice as many. Bits, as whole numbers with
/// a sign, have the order of numbers that are not negative, and a ReLU makes zeros of those that are. False
/// if there was a NaN, or a negative number without a ReLU: the row is then wrong.
bool pool_row_by_bits(const PoolRow<BFloat16>& row) {
  const PoolShape& shape = row.shape;
  constexpr int64_t kLanes = 2 * kWidest;
  constexpr int16_t kInfinity = 0x7f80;
  constexpr uint16_t kMinusInfinity = 0xff80, kGreatestPositive = 0x7fff;
  const uint16_t most = shape.relu ? kMinusInfinity : kGreatestPositive;
  Halves wrong{};
  row.each_window([&](const BFloat16* window, const Span& columns, int64_t x) {
    const int64_t first_point = (row.rows.begin * shape.width + columns.begin) * shape.channels;
    for (int64_t begin = 0; begin < shape.channels; begin += kLanes) {
      const int64_t c = smaller(begin, shape.channels - kLanes);  // some channels a second time
      Halves best{}, place = Halves{} + static_cast<int16_t>(kCut);
      UnsignedHalves greatest{};  // of negative numbers, -NaN
      if (!shape.relu) {
        best = load_bytes<Halves>(window + first_point + c);
        place = Halves{} + static_cast<int16_t>(row.rows.begin * shape.kernel_width + columns.begin);
      }
      row.each_point(columns, [&](int64_t offset, int64_t point) {
        const auto value = load_bytes<Halves>(window + offset + c);
        const Halves better = value > best;
        best = better ? value : best;
        place = better ? Halves{} + static_cast<int16_t>(point) : place;
        const auto bits = reinterpret_cast<UnsignedHalves>(value);
        greatest = bits > greatest ? bits : greatest;
      });
      wrong |= best > kInfinity;
      wrong |= greatest > most;
      std::memcpy(row.output + x * shape.channels + c, &best, sizeof best);
      narrow(place, row.largest + x * shape.channels + c);
    }
  });
  return !any(wrong);
}

template <class T>
void max_pool(const PoolShape& shape, const T* input, T* output, uint8_t* largest) {
  const int64_t results = shape.output_width * shape.channels;
  bool by_bits = std::is_same_v<T, BFloat16> && shape.channels >= 2 * kWidest;
  for (int64_t n = 0; n < shape.batch; ++n) {
    const T* image = input + n * shape.height * shape.width * shape.channels;
    for (int64_t y = 0; y < shape.output_height; ++y, output += results, largest += results) {
      const Span rows(y, shape.stride_height, shape.padding_height, shape.kernel_height, shape.height);
      const PoolRow<T> row{shape, rows, image, output, largest};
      if constexpr (std::is_same_v<T, BFloat16>) {
        if (by_bits && (by_bits = pool_row_by_bits(row))) continue;
      }
      pool_row(row);
    }
  }
}

/// The windows [begin, end) that contain a place of the input, in one dimension. It moves from place to
/// place, beginning at 0, without a division.
class Cover {
 public:
  Cover(int64_t stride, int64_t padding, int64_t kernel, int64_t windows)
      : stride_(stride),
        windows_(windows),
        end_(padding / stride + 1),
        until_next_begins_(stride - padding % stride),
        until_first_ends_(kernel - padding) {}

  int64_t begin() const { return begin_; }
  int64_t end() const { return smaller(windows_, end_); }

  void go_on() {
    if (--until_next_begins_ == 0) {
      ++end_;
      until_next_begins_ = stride_;
    }
    if (--until_first_ends_ == 0) {
      ++begin_;
      until_first_ends_ = stride_;
    }
  }

 private:
  int64_t stride_;
  int64_t windows_;
  int64_t begin_ = 0;
  int64_t end_;
  int64_t until_next_begins_;
  int64_t until_first_ends_;
};

/// Whether each place of the input is in exactly one window.
inline bool is_divided(const PoolShape& shape) {
  return shape.padding_height == 0 && shape.padding_width == 0 &&
         shape.kernel_height == shape.stride_height && shape.kernel_width == shape.stride_width &&
         shape.height == shape.output_height * shape.kernel_height &&
         shape.width == shape.output_width * shape.kernel_width;
}

/// For windows with is_divided: reads the gradient and place of each window once. Adding zero turns -0 into
/// 0, as in a sum.
template <class T>
void divided_gradient(const PoolShape& shape, const T* gradient, const uint8_t* largest, T* input_gradient) {
  const int64_t row = shape.width * shape.channels;
  for (int64_t y = 0; y < shape.batch * shape.output_height;
       ++y, input_gradient += shape.kernel_height * row) {
    for (int64_t x = 0; x < shape.output_width; ++x, gradient += shape.channels, largest += shape.channels) {
      T* window = input_gradient + x * shape.kernel_width * shape.channels;
      each_vector(shape.channels, [&](int64_t c, auto count) {
        const Integers place = load_bytes_part(largest + c, count);
        const Floats value = load_part(gradient + c, count) + Floats{};
        for (int64_t ky = 0; ky < shape.kernel_height; ++ky) {
          for (int64_t kx = 0; kx < shape.kernel_width; ++kx) {
            store_exact_part(place == static_cast<int32_t>(ky * shape.kernel_width + kx) ? value : Floats{},
                             window + ky * row + kx * shape.channels + c, count);
          }
        }
      });
    }
  }
}

template <class T>
void max_pool_gradient(const PoolShape& shape, const T* gradient, const uint8_t* largest, T* input_gradient) {
  if (is_divided(shape)) return divided_gradient(shape, gradient, largest, input_gradient);
  for (int64_t n = 0; n < shape.batch; ++n) {
    const int64_t first = n * shape.output_height * shape.output_width;
    Cover rows(shape.stride_height, shape.padding_height, shape.kernel_height, shape.output_height);
    for (int64_t row = 0; row < shape.height; ++row, rows.go_on()) {
      Cover columns(shape.stride_width, shape.padding_width, shape.kernel_width, shape.output_width);
      for (int64_t column = 0; column < shape.width;
           ++column, input_gradient += shape.channels, columns.go_on()) {
        each_vector(shape.channels, [&](int64_t c, auto count) {
          Floats sum{};
          for (int64_t y = rows.begin(); y < rows.end(); ++y) {
            const int64_t ky = row + shape.padding_height - y * shape.stride_height;
            for (int64_t x = columns.begin(); x < columns.end(); ++x) {
              const int64_t place = (first + y * shape.output_width + x) * shape.channels + c;
              const int64_t point =
                  ky * shape.kernel_width + column + shape.padding_width - x * shape.stride_width;
              sum += load_bytes_part(largest + place, count) == static_cast<int32_t>(point)
                         ? load_part(gradient + place, count)
                         : Floats{};
            }
          }
          store_part(sum, input_gradient + c, count);
        });
      }
    }
  }
}

template <class T>
constexpr PoolKernels<T> kKernels{&max_pool<T>, &max_pool_gradient<T>};

}  // namespace

const PoolKernels<float>& LOCKSTEP_POOL_KERNELS(float) { return kKernels<float>; }
const PoolKernels<BFloat16>& LOCKSTEP_POOL_KERNELS(BFloat16) { return kKernels<BFloat16>; }

}  // namespace lockstep::kernels
