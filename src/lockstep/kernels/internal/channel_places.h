// Vectors are full for any number of channels: [rows, channels] is read as one flat array in strides of
// lcm(channels, 16) values, and the values of a channel are repeated along a stride. Each place of a stride
// has its own sum. The sums are folded at the end in a fixed order, so the bits do not depend on the width of
// the vectors. The values of a place stay in registers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "lockstep/kernels/internal/vectors.h"
#include "lockstep/kernels/internal/workspace.h"

namespace lockstep::kernels {
namespace {

constexpr int kLanes = kWidest;

class Strides {
 public:
  Strides(int64_t rows, int64_t channels)
      : channels_(channels),
        size_(stride_of(channels)),
        whole_(rows * channels / size_),
        rest_(rows * channels % size_) {}

  int64_t size() const { return size_; }

  int64_t channels() const { return channels_; }
  bool is_one_row() const { return size_ == channels_; }

  /// Calls kernel.run<vectors>(place, begin, strides, size) for blocks of a stride's vectors, at most kMost
  /// wide, over the number of strides that the first-level cache can contain; then kernel.run_rest(begin,
  /// count) for the values after the last whole stride.
  template <int kMost, class Kernel>
  void each(const Kernel& kernel) const {
    const int64_t chunk = std::max<int64_t>(1, 2048 / size_);
    for (int64_t stride = 0; stride < whole_; stride += chunk) {
      each_block<kMost>(size_ / kLanes, [&](int64_t vector, auto count) {
        kernel.template run<count>(vector * kLanes, stride * size_ + vector * kLanes,
                                   std::min(chunk, whole_ - stride), size_);
      });
    }
    if (rest_ > 0) kernel.run_rest(whole_ * size_, rest_);
  }

 private:
  template <int kMost, class Work>
  static void each_block(int64_t vectors, Work&& work) {
    const int64_t blocks = (vectors + kMost - 1) / kMost;
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t begin = vectors * block / blocks;
      with_constant<kMost>(vectors * (block + 1) / blocks - begin, [&](auto count) { work(begin, count); });
    }
  }

  template <int kMost, class Work>
  static void with_constant(int64_t value, Work&& work) {
    if (value == kMost) return work(std::integral_constant<int, kMost>{});
    if constexpr (kMost > 1) with_constant<kMost - 1>(value, work);
  }

  // Not std::lcm: with -O2 -mavx512dq, g++ 12 gives -16 for lcm(1, 16) here.
  static int64_t stride_of(int64_t channels) {
    int64_t result = channels;
    while (result % 16 != 0) result += channels;
    return result;
  }

  int64_t channels_;
  int64_t size_;
  int64_t whole_;
  int64_t rest_;
};

/// The values of the channels at each place of a stride: the given ones where a stride is one row.
inline const float* repeated(const Strides& strides, const float* values, Workspace& workspace) {
  if (strides.is_one_row()) return values;
  float* places = workspace.take(strides.size());
  for (int64_t i = 0; i < strides.size(); i += strides.channels())
    std::copy(values, values + strides.channels(), places + i);
  return places;
}

/// A sum for each place of a stride, at first zero: in `sums` [channels] itself where a stride is one row.
class PlaceSums {
 public:
  PlaceSums(const Strides& strides, float* sums, Workspace& workspace)
      : strides_(strides),
        sums_(sums),
        places_(strides.is_one_row() ? sums : workspace.take(strides.size())) {
    std::fill(places_, places_ + strides.size(), 0.0F);
  }

  float* places() const { return places_; }

  /// Adds the places of each channel into its sum.
  void fold() const {
    if (places_ == sums_) return;
    for (int64_t c = 0; c < strides_.channels(); ++c) {
      double sum = 0;
      for (int64_t i = c; i < strides_.size(); i += strides_.channels()) sum += places_[i];
      sums_[c] = static_cast<float>(sum);
    }
  }

 private:
  const Strides& strides_;
  float* sums_;
  float* places_;
};

}  // namespace
}  // namespace lockstep::kernels
