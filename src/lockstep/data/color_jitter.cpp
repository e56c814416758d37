// torchvision's arithmetic on 8-bit tensors: sums in float, truncated to integer levels after each of the
// four changes.
#include "lockstep/data/internal/color_jitter.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace lockstep::data {
namespace {

struct Planes {
  std::span<uint8_t> red, green, blue;  // all equal for a grey image
  bool grey = false;
};

uint8_t to_level(float value) { return static_cast<uint8_t>(std::clamp(value, 0.0f, 255.0f)); }

float luma(const Planes& planes, size_t i) {
  if (planes.grey) return planes.red[i];
  return std::floor(0.2989f * planes.red[i] + 0.587f * planes.green[i] + 0.114f * planes.blue[i]);
}

template <class Work>
void for_each_plane(const Planes& planes, Work&& work) {
  work(planes.red);
  if (planes.grey) return;
  work(planes.green);
  work(planes.blue);
}

void change_brightness(const Planes& planes, float factor) {
  for_each_plane(planes, [&](std::span<uint8_t> plane) {
    for (uint8_t& level : plane) level = to_level(factor * level);
  });
}

// `rest` is 1 - factor: torchvision takes the difference before it rounds both to float.
void change_contrast(const Planes& planes, float factor, float rest) {
  double sum = 0;
  for (size_t i = 0; i < planes.red.size(); ++i) sum += luma(planes, i);
  const auto mean = static_cast<float>(sum / static_cast<double>(planes.red.size()));
  for_each_plane(planes, [&](std::span<uint8_t> plane) {
    for (uint8_t& level : plane) level = to_level(factor * level + rest * mean);
  });
}

void change_saturation(const Planes& planes, float factor, float rest) {
  if (planes.grey) return;
  for (size_t i = 0; i < planes.red.size(); ++i) {
    const float grey = rest * luma(planes, i);
    for (const auto& plane : {planes.red, planes.green, planes.blue})
      plane[i] = to_level(factor * plane[i] + grey);
  }
}

// Hue ranges from 0 to 6, with a whole number for each of red, yellow, green, cyan, blue and magenta.
void turn_hue(const Planes& planes, float turn) {
  if (planes.grey) return;
  for (size_t i = 0; i < planes.red.size(); ++i) {
    const float red = planes.red[i], green = planes.green[i], blue = planes.blue[i];
    const float most = std::max({red, green, blue}), least = std::min({red, green, blue});
    const float range = most - least;
    if (range == 0) continue;
    float hue = most == red     ? (green - blue) / range
                : most == green ? 2 + (blue - red) / range
                                : 4 + (red - green) / range;
    hue += 6 * turn;
    hue -= 6 * std::floor(hue / 6);
    const auto channel = [&](float offset) {
      float place = hue + offset;
      if (place >= 6) place -= 6;
      return to_level(most - range * std::clamp(std::min(place, 4 - place), 0.0f, 1.0f) + 0.5f);
    };
    planes.red[i] = channel(5);
    planes.green[i] = channel(3);
    planes.blue[i] = channel(1);
  }
}

float factor_of(Random& random, double most) {
  const double low = std::max(0.0, 1 - most);
  return static_cast<float>(low + (1 + most - low) * random.uniform());
}

Planes planes_of(std::span<uint8_t> image, const ImageFormat& format) {
  const auto plane = static_cast<size_t>(format.height * format.width);
  const bool grey = format.channels == 1;
  return {image.first(plane), image.subspan(grey ? 0 : plane, plane),
          image.subspan(grey ? 0 : 2 * plane, plane), grey};
}

}  // namespace

void change_color(std::span<uint8_t> image, const ImageFormat& format, ColorChange change, double factor) {
  const Planes planes = planes_of(image, format);
  const auto own = static_cast<float>(factor), rest = static_cast<float>(1 - factor);
  if (change == ColorChange::brightness) change_brightness(planes, own);
  if (change == ColorChange::contrast) change_contrast(planes, own, rest);
  if (change == ColorChange::saturation) change_saturation(planes, own, rest);
}

void jitter_colors(std::span<uint8_t> image, const ImageFormat& format, const ColorJitter& jitter,
                   Random random) {
  const Planes planes = planes_of(image, format);
  const std::vector<int64_t> order = permutation(4, random.next());
  const float brightness = factor_of(random, jitter.brightness),
              contrast = factor_of(random, jitter.contrast),
              saturation = factor_of(random, jitter.saturation);
  const auto hue = static_cast<float>(jitter.hue * (2 * random.uniform() - 1));
  for (const int64_t change : order) {
    if (change == 0 && jitter.brightness > 0) change_brightness(planes, brightness);
    if (change == 1 && jitter.contrast > 0) change_contrast(planes, contrast, 1 - contrast);
    if (change == 2 && jitter.saturation > 0) change_saturation(planes, saturation, 1 - saturation);
    if (change == 3 && jitter.hue > 0) turn_hue(planes, hue);
  }
}

}  // namespace lockstep::data
