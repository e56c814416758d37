// The method is Pillow's (src/libImaging/Resample.c describes it): a triangle filter widened by the scale when shrinking, columns first and
// then rows, each pass rounded to 8 bits, weights in fixed point with 22 bits after the point. Keeping its rounding keeps its levels.
#include "lockstep/data/resample.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace lockstep::data {
namespace {

constexpr int kFractionBits = 22;
constexpr int32_t kHalf = 1 << (kFractionBits - 1);

// For each output position the input positions it draws on and their weights.
struct Taps {
  struct Window {
    int64_t first = 0;
    int64_t count = 0;
  };
  std::vector<Window> windows;
  std::vector<int32_t> weights;  // stride per output position
  int64_t stride = 0;

  const int32_t* weights_of(int64_t position) const { return weights.data() + position * stride; }
};

double triangle(double distance) { return std::max(0.0, 1.0 - std::abs(distance)); }

int32_t fixed_point(double weight) { return static_cast<int32_t>(std::floor(weight * (1 << kFractionBits) + 0.5)); }

Taps make_taps(int64_t source_length, double begin, double end, int64_t destination_length) {
  const double scale = (end - begin) / static_cast<double>(destination_length);
  const double reach = std::max(scale, 1.0);
  Taps taps;
  taps.stride = static_cast<int64_t>(std::ceil(reach)) * 2 + 1;
  taps.windows.resize(static_cast<size_t>(destination_length));
  taps.weights.resize(static_cast<size_t>(destination_length * taps.stride));
  std::vector<double> exact(static_cast<size_t>(taps.stride));
  for (int64_t position = 0; position < destination_length; ++position) {
    const double centre = begin + (static_cast<double>(position) + 0.5) * scale;
    const int64_t first = std::max<int64_t>(0, static_cast<int64_t>(centre - reach + 0.5));
    const int64_t last = std::min<int64_t>(source_length, static_cast<int64_t>(centre + reach + 0.5));
    double sum = 0;
    for (int64_t i = first; i < last; ++i) {
      const double weight = triangle((static_cast<double>(i) - centre + 0.5) / reach);
      exact[static_cast<size_t>(i - first)] = weight;
      sum += weight;
    }
    taps.windows[static_cast<size_t>(position)] = {first, last - first};
    for (int64_t i = 0; i < last - first; ++i) {
      taps.weights[static_cast<size_t>(position * taps.stride + i)] = fixed_point(exact[static_cast<size_t>(i)] / sum);
    }
  }
  return taps;
}

uint8_t to_level(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kFractionBits, 0, 255)); }

void resample_row(const uint8_t* source, const Taps& taps, uint8_t* destination) {
  const auto width = static_cast<int64_t>(taps.windows.size());
  for (int64_t x = 0; x < width; ++x) {
    const auto [first, count] = taps.windows[static_cast<size_t>(x)];
    const int32_t* weights = taps.weights_of(x);
    int32_t sum = kHalf;
    for (int64_t i = 0; i < count; ++i) sum += source[first + i] * weights[i];
    destination[x] = to_level(sum);
  }
}

// One output row out of `count` input rows that lie `width` apart; `sums` is scratch of one row.
void mix_rows(const uint8_t* source, int64_t width, const int32_t* weights, int64_t count, int32_t* sums, uint8_t* destination) {
  std::fill_n(sums, width, kHalf);
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t* row = source + i * width;
    const int32_t weight = weights[i];
    for (int64_t x = 0; x < width; ++x) sums[x] += row[x] * weight;
  }
  for (int64_t x = 0; x < width; ++x) destination[x] = to_level(sums[x]);
}

bool whole(double begin, double end, int64_t length, int64_t wanted) {
  return length == wanted && begin == 0 && end == static_cast<double>(length);
}

}  // namespace

void resample(PlaneSize source_size, std::span<const uint8_t> source, const Box& box, PlaneSize destination_size,
              std::span<uint8_t> destination) {
  const Taps rows = make_taps(source_size.height, box.top, box.bottom, destination_size.height);
  const int64_t first_row = rows.windows.front().first;
  const int64_t end_row = rows.windows.back().first + rows.windows.back().count;

  std::vector<uint8_t> narrowed;
  const uint8_t* between = source.data() + first_row * source_size.width;
  if (!whole(box.left, box.right, source_size.width, destination_size.width)) {
    const Taps columns = make_taps(source_size.width, box.left, box.right, destination_size.width);
    narrowed.resize(static_cast<size_t>((end_row - first_row) * destination_size.width));
    for (int64_t y = first_row; y < end_row; ++y) {
      resample_row(source.data() + y * source_size.width, columns, narrowed.data() + (y - first_row) * destination_size.width);
    }
    between = narrowed.data();
  }

  if (whole(box.top, box.bottom, source_size.height, destination_size.height)) {
    std::copy_n(between, destination_size.pixels(), destination.data());
    return;
  }
  std::vector<int32_t> sums(static_cast<size_t>(destination_size.width));
  for (int64_t y = 0; y < destination_size.height; ++y) {
    const auto [first, count] = rows.windows[static_cast<size_t>(y)];
    mix_rows(between + (first - first_row) * destination_size.width, destination_size.width, rows.weights_of(y), count, sums.data(),
             destination.data() + y * destination_size.width);
  }
}

}  // namespace lockstep::data
