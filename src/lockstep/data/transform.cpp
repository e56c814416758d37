#include "lockstep/data/transform.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "lockstep/data/resample.h"

namespace lockstep::data {
namespace {

// ITU-R 601 luma in 16-bit fixed point, Pillow's constants.
void to_grey(int64_t pixels, const uint8_t* colour, uint8_t* grey) {
  const uint8_t* red = colour;
  const uint8_t* green = colour + pixels;
  const uint8_t* blue = colour + 2 * pixels;
  for (int64_t i = 0; i < pixels; ++i) {
    grey[i] = static_cast<uint8_t>((red[i] * 19595u + green[i] * 38470u + blue[i] * 7471u + 32768u) >> 16);
  }
}

// The centred part of a picture that has the wanted proportions, as Pillow's ImageOps.fit takes it.
Box centred_part(PlaneSize from, PlaneSize to) {
  const auto width = static_cast<double>(from.width), height = static_cast<double>(from.height);
  const double has = width / height;
  const double wanted = static_cast<double>(to.width) / static_cast<double>(to.height);
  double part_width = width, part_height = height;
  if (has > wanted) part_width = wanted * height;
  if (has < wanted) part_height = width / wanted;
  const double left = (width - part_width) * 0.5, top = (height - part_height) * 0.5;
  return {left, top, std::min(left + part_width, width), std::min(top + part_height, height)};
}

// The largest size with the picture's proportions that fits, rounded half to even as Pillow's ImageOps.contain does.
PlaneSize contained_size(PlaneSize from, PlaneSize to) {
  const auto width = static_cast<double>(from.width), height = static_cast<double>(from.height);
  const double has = width / height;
  const double wanted = static_cast<double>(to.width) / static_cast<double>(to.height);
  PlaneSize size = to;
  if (has > wanted) size.height = std::lrint(height / width * static_cast<double>(to.width));
  if (has < wanted) size.width = std::lrint(width / height * static_cast<double>(to.height));
  return {std::max<int64_t>(size.height, 1), std::max<int64_t>(size.width, 1)};
}

void pad_plane(PlaneSize from, std::span<const uint8_t> source, PlaneSize to, std::span<uint8_t> destination) {
  const PlaneSize inner = contained_size(from, to);
  std::vector<uint8_t> scaled(static_cast<size_t>(inner.pixels()));
  resample(from, source, {0, 0, static_cast<double>(from.width), static_cast<double>(from.height)}, inner, scaled);
  const int64_t left = std::lrint(static_cast<double>(to.width - inner.width) * 0.5);
  const int64_t top = std::lrint(static_cast<double>(to.height - inner.height) * 0.5);
  std::fill(destination.begin(), destination.end(), uint8_t{0});
  for (int64_t y = 0; y < inner.height; ++y) {
    std::copy_n(scaled.data() + y * inner.width, inner.width, destination.data() + (top + y) * to.width + left);
  }
}

void fit_plane(PlaneSize from, std::span<const uint8_t> source, const PictureFormat& format, std::span<uint8_t> destination) {
  const PlaneSize to{format.height, format.width};
  if (from.height == to.height && from.width == to.width) {
    std::copy(source.begin(), source.end(), destination.begin());
    return;
  }
  switch (format.resize) {
    case Resize::stretch:
      return resample(from, source, {0, 0, static_cast<double>(from.width), static_cast<double>(from.height)}, to, destination);
    case Resize::crop: return resample(from, source, centred_part(from, to), to, destination);
    case Resize::pad: return pad_plane(from, source, to, destination);
  }
}

}  // namespace

void to_format(const ImageSize& size, std::span<const uint8_t> pixels, const PictureFormat& format, std::span<uint8_t> destination) {
  const PlaneSize from{size.height, size.width};
  std::vector<uint8_t> grey;
  if (size.channels == 3 && format.channels == 1) {
    grey.resize(static_cast<size_t>(from.pixels()));
    to_grey(from.pixels(), pixels.data(), grey.data());
    pixels = grey;
  }
  const auto source_plane = static_cast<size_t>(from.pixels());
  const auto plane = static_cast<size_t>(format.height * format.width);
  const int64_t planes = std::min(size.channels, format.channels);
  for (int64_t c = 0; c < planes; ++c) {
    fit_plane(from, pixels.subspan(static_cast<size_t>(c) * source_plane, source_plane), format,
              destination.subspan(static_cast<size_t>(c) * plane, plane));
  }
  for (int64_t c = planes; c < format.channels; ++c) std::memcpy(destination.data() + static_cast<size_t>(c) * plane, destination.data(), plane);
}

Image to_format(const Image& image, const PictureFormat& format) {
  Image result{format.channels, format.height, format.width, std::vector<uint8_t>(static_cast<size_t>(format.size().bytes()))};
  to_format({image.channels, image.height, image.width}, image.pixels, format, result.pixels);
  return result;
}

}  // namespace lockstep::data
