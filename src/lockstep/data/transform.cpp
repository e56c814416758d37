#include "lockstep/data/transform.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lockstep/data/internal/resample_kernels.h"
#include "lockstep/data/internal/thread_buffer.h"
#include "lockstep/data/resample.h"

namespace lockstep::data {
namespace {

// ITU-R 601 luma in 16-bit fixed point, Pillow's constants.
void to_grey(const Pixels& pixels, uint8_t* grey) {
  const auto& [red_plane, green_plane, blue_plane] = pixels.planes;
  for (int64_t y = 0; y < pixels.size.height; ++y) {
    const uint8_t* red = red_plane.first + y * red_plane.row;
    const uint8_t* green = green_plane.first + y * green_plane.row;
    const uint8_t* blue = blue_plane.first + y * blue_plane.row;
    for (int64_t i = 0; i < pixels.size.width;
         ++i, red += red_plane.step, green += green_plane.step, blue += blue_plane.step) {
      *grey++ = static_cast<uint8_t>((*red * 19595u + *green * 38470u + *blue * 7471u + 32768u) >> 16);
    }
  }
}

// Part of an image in pixels; fractions are allowed.
struct Extent {
  double height = 0;
  double width = 0;
};

Extent extent_of(const Pixels& pixels) {
  return {static_cast<double>(pixels.size.height) * pixels.height_share,
          static_cast<double>(pixels.size.width) * pixels.width_share};
}

// The centred part with the requested proportions, as in Pillow's ImageOps.fit.
Box centred_part(Extent from, PlaneSize to) {
  const auto [height, width] = from;
  const double has = width / height;
  const double wanted = static_cast<double>(to.width) / static_cast<double>(to.height);
  double part_width = width, part_height = height;
  if (has > wanted) part_width = wanted * height;
  if (has < wanted) part_height = width / wanted;
  const double left = (width - part_width) * 0.5, top = (height - part_height) * 0.5;
  return {left, top, std::min(left + part_width, width), std::min(top + part_height, height)};
}

// The largest size with the image's proportions that fits, rounded half to even, as in Pillow's
// ImageOps.contain.
PlaneSize contained_size(Extent from, PlaneSize to) {
  const auto [height, width] = from;
  const double has = width / height;
  const double wanted = static_cast<double>(to.width) / static_cast<double>(to.height);
  PlaneSize size = to;
  if (has > wanted) size.height = std::lrint(height / width * static_cast<double>(to.width));
  if (has < wanted) size.width = std::lrint(width / height * static_cast<double>(to.height));
  return {std::max<int64_t>(size.height, 1), std::max<int64_t>(size.width, 1)};
}

Box whole_of(Extent size) { return {0, 0, size.width, size.height}; }

Box shrunk(const Box& box, int64_t across, int64_t down) {
  const auto x = static_cast<double>(across), y = static_cast<double>(down);
  return {box.left / x, box.top / y, box.right / x, box.bottom / y};
}

// Resizes the part `box` of all channels to size `to`; the result is red, green and blue even if the pixels
// are luma and chroma.
void fill(const Pixels& pixels, const Box& box, PlaneSize to, std::span<uint8_t> destination) {
  const auto channels = static_cast<size_t>(pixels.size.channels);
  if (!pixels.luma_chroma) return resample(std::span(pixels.planes).first(channels), box, to, destination);
  const auto plane = static_cast<size_t>(to.pixels());
  resample(std::span(pixels.planes).first(1), box, to, destination.first(plane));
  resample(std::span(pixels.planes).subspan(1, 2), shrunk(box, pixels.chroma_width, pixels.chroma_height), to,
           destination.subspan(plane));
  resample_kernels().to_colours(destination.data(), destination.data() + plane,
                                destination.data() + 2 * plane, to.pixels());
}

void pad(const Pixels& pixels, PlaneSize to, std::span<uint8_t> destination) {
  thread_local ThreadBuffer memory;
  const Extent from = extent_of(pixels);
  const PlaneSize inner = contained_size(from, to);
  const std::span<uint8_t> scaled = memory.of(static_cast<size_t>(pixels.size.channels * inner.pixels()));
  fill(pixels, whole_of(from), inner, scaled);
  const int64_t left = std::lrint(static_cast<double>(to.width - inner.width) * 0.5);
  const int64_t top = std::lrint(static_cast<double>(to.height - inner.height) * 0.5);
  std::fill(destination.begin(), destination.end(), uint8_t{0});
  for (int64_t c = 0; c < pixels.size.channels; ++c) {
    uint8_t* const plane = destination.data() + c * to.pixels();
    for (int64_t y = 0; y < inner.height; ++y)
      std::copy_n(scaled.data() + (c * inner.height + y) * inner.width, inner.width,
                  plane + (top + y) * to.width + left);
  }
}

void fit(const Pixels& pixels, const ImageFormat& format, std::span<uint8_t> destination) {
  const Extent from = extent_of(pixels);
  const PlaneSize to{format.height, format.width};
  if (from.height == static_cast<double>(to.height) && from.width == static_cast<double>(to.width)) {
    if (!pixels.luma_chroma) return to_planes(pixels, destination);
    return fill(pixels, whole_of(from), to, destination);
  }
  switch (format.resize) {
    case Resize::stretch:
      return fill(pixels, whole_of(from), to, destination);
    case Resize::crop:
      return fill(pixels, centred_part(from, to), to, destination);
    case Resize::pad:
      return pad(pixels, to, destination);
  }
}

}  // namespace

double least_scale(const ImageSize& size, const ImageFormat& format) {
  const double down = static_cast<double>(format.height) / static_cast<double>(size.height);
  const double across = static_cast<double>(format.width) / static_cast<double>(size.width);
  return format.resize == Resize::pad ? std::min(down, across) : std::max(down, across);
}

void to_format(const Pixels& pixels, const ImageFormat& format, std::span<uint8_t> destination) {
  thread_local ThreadBuffer memory;
  const size_t plane = static_cast<size_t>(format.height * format.width);
  if (pixels.size.channels <= format.channels) {
    fit(pixels, format, destination);
    for (int64_t c = pixels.size.channels; c < format.channels; ++c)
      std::memcpy(destination.data() + static_cast<size_t>(c) * plane, destination.data(), plane);
    return;
  }
  Pixels grey = pixels;
  grey.size.channels = 1;
  grey.luma_chroma = false;
  if (!pixels.luma_chroma) {
    const std::span<uint8_t> levels = memory.of(static_cast<size_t>(pixels.size.height * pixels.size.width));
    to_grey(pixels, levels.data());
    grey = interleaved(levels.data(), grey.size, 1);
  }
  fit(grey, format, destination);
}

void to_format(const ImageSize& size, std::span<const uint8_t> pixels, const ImageFormat& format,
               std::span<uint8_t> destination) {
  Pixels planar{.size = size};
  for (int64_t c = 0; c < size.channels; ++c)
    planar.planes[static_cast<size_t>(c)] = {pixels.data() + c * size.height * size.width, size.width, 1,
                                             size.height, size.width};
  to_format(planar, format, destination);
}

Image to_format(const Image& image, const ImageFormat& format) {
  Image result{format.channels, format.height, format.width,
               std::vector<uint8_t>(static_cast<size_t>(format.size().bytes()))};
  to_format({image.channels, image.height, image.width}, image.pixels, format, result.pixels);
  return result;
}

}  // namespace lockstep::data
