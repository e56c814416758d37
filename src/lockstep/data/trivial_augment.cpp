#include "lockstep/data/internal/trivial_augment.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "lockstep/data/internal/affine.h"
#include "lockstep/data/internal/color_jitter.h"
#include "lockstep/data/internal/thread_buffer.h"

namespace lockstep::data {
namespace {

constexpr int64_t kMagnitudes = 31;  // from 0 to the largest in equal steps, torchvision's num_magnitude_bins
constexpr double kMostTangent = 0.99, kMostPixels = 32, kMostDegrees = 135, kMostFactor = 0.99;

double degrees_of_tangent(double tangent) { return std::atan(tangent) * 180 / std::numbers::pi; }

template <class Work>
void for_each_channel(std::span<uint8_t> image, const ImageFormat& format, Work&& work) {
  const auto plane = static_cast<size_t>(format.height * format.width);
  for (size_t c = 0; c < static_cast<size_t>(format.channels); ++c) work(image.subspan(c * plane, plane));
}

// F.adjust_sharpness: towards or away from a smoothed image, whose border is the original's.
void change_sharpness(std::span<uint8_t> plane, int64_t height, int64_t width, double factor) {
  const auto own = static_cast<float>(factor), rest = static_cast<float>(1 - factor);
  if (height <= 2 || width <= 2) return;
  thread_local ThreadBuffer memory;
  const std::span<uint8_t> whole = memory.of(plane.size());
  std::copy(plane.begin(), plane.end(), whole.begin());
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      const auto at = static_cast<size_t>(y * width + x);
      float smooth = whole[at];
      if (y > 0 && x > 0 && y + 1 < height && x + 1 < width) {
        int sum = 4 * whole[at];
        for (int64_t row = y - 1; row <= y + 1; ++row)
          for (int64_t column = x - 1; column <= x + 1; ++column)
            sum += whole[static_cast<size_t>(row * width + column)];
        smooth = std::nearbyint(static_cast<float>(sum) / 13);
      }
      const float value = own * whole[at] + rest * smooth;
      plane[at] = static_cast<uint8_t>(std::clamp(value, 0.0f, 255.0f));
    }
  }
}

// F.autocontrast: the darkest level becomes 0 and the lightest 255.
void stretch_levels(std::span<uint8_t> plane) {
  const auto [low, high] = std::minmax_element(plane.begin(), plane.end());
  if (*low == *high) return;
  const auto least = static_cast<float>(*low);
  const float scale = 255.0f / (static_cast<float>(*high) - least);
  for (uint8_t& level : plane)
    level = static_cast<uint8_t>(std::clamp((static_cast<float>(level) - least) * scale, 0.0f, 255.0f));
}

// F.equalize: each level becomes about equally frequent.
void equalize_levels(std::span<uint8_t> plane) {
  std::array<int64_t, 256> counts{};
  for (const uint8_t level : plane) ++counts[level];
  const auto last = std::find_if(counts.rbegin(), counts.rend(), [](int64_t count) { return count > 0; });
  const int64_t step = (static_cast<int64_t>(plane.size()) - (last == counts.rend() ? 0 : *last)) / 255;
  if (step == 0) return;
  std::array<uint8_t, 256> levels{};
  int64_t below = 0;
  for (size_t i = 0; i < levels.size(); ++i) {
    levels[i] = static_cast<uint8_t>(std::clamp<int64_t>((below + step / 2) / step, 0, 255));
    below += counts[i];
  }
  levels[0] = 0;
  for (uint8_t& level : plane) level = levels[level];
}

double largest_of(TrivialOperation operation) {
  using enum TrivialOperation;
  if (operation == shear_x || operation == shear_y) return kMostTangent;
  if (operation == translate_x || operation == translate_y) return kMostPixels;
  return operation == rotate ? kMostDegrees : kMostFactor;
}

// torchvision's _augmentation_space at one of its magnitudes.
double magnitude_of(TrivialOperation operation, int64_t place) {
  const double share = static_cast<double>(place) / static_cast<double>(kMagnitudes - 1);
  if (operation == TrivialOperation::posterize) return 8 - std::nearbyint(static_cast<double>(place) / 5);
  if (operation == TrivialOperation::solarize) return 255 * (1 - share);
  return largest_of(operation) * share;
}

bool has_sign(TrivialOperation operation) {
  return operation >= TrivialOperation::shear_x && operation <= TrivialOperation::sharpness;
}

}  // namespace

void apply_operation(std::span<uint8_t> image, const ImageFormat& format, TrivialOperation operation,
                     double magnitude) {
  using enum TrivialOperation;
  const double factor = 1 + magnitude;
  switch (operation) {
    case identity:
      return;
    case shear_x:
      return apply_affine(image, format, {.shear_x = degrees_of_tangent(magnitude), .from_corner = true});
    case shear_y:
      return apply_affine(image, format, {.shear_y = degrees_of_tangent(magnitude), .from_corner = true});
    case translate_x:
      return apply_affine(image, format, {.right = std::trunc(magnitude)});
    case translate_y:
      return apply_affine(image, format, {.down = std::trunc(magnitude)});
    case rotate:
      return apply_affine(image, format, {.angle = -magnitude});
    case brightness:
      return change_color(image, format, ColorChange::brightness, factor);
    case color:
      return change_color(image, format, ColorChange::saturation, factor);
    case contrast:
      return change_color(image, format, ColorChange::contrast, factor);
    case sharpness:
      return for_each_channel(image, format, [&](std::span<uint8_t> plane) {
        change_sharpness(plane, format.height, format.width, factor);
      });
    case posterize:
      for (uint8_t& level : image) level &= static_cast<uint8_t>(-(1 << (8 - static_cast<int>(magnitude))));
      return;
    case solarize:
      for (uint8_t& level : image) level = level >= magnitude ? static_cast<uint8_t>(255 - level) : level;
      return;
    case auto_contrast:
      return for_each_channel(image, format, stretch_levels);
    case equalize:
      return for_each_channel(image, format, equalize_levels);
  }
}

void augment_trivially(std::span<uint8_t> image, const ImageFormat& format, Random random) {
  const auto operation = static_cast<TrivialOperation>(random.below(enum_names(TrivialOperation{}).size()));
  const auto place = static_cast<int64_t>(random.below(kMagnitudes));
  const bool negative = (random.next() >> 63) != 0;
  const double magnitude = magnitude_of(operation, place);
  apply_operation(image, format, operation, negative && has_sign(operation) ? -magnitude : magnitude);
}

}  // namespace lockstep::data
