#include "lockstep/data/pixels.h"

namespace lockstep::data {
namespace {

PixelPlane mirrored(PixelPlane plane) {
  plane.first += (plane.width - 1) * plane.step;
  plane.step = -plane.step;
  return plane;
}

PixelPlane upside_down(PixelPlane plane) {
  plane.first += (plane.height - 1) * plane.row;
  plane.row = -plane.row;
  return plane;
}

PixelPlane transposed(PixelPlane plane) {
  std::swap(plane.row, plane.step);
  std::swap(plane.height, plane.width);
  return plane;
}

PixelPlane oriented(const PixelPlane& plane, int64_t orientation) {
  switch (orientation) {
    case 2:
      return mirrored(plane);
    case 3:
      return upside_down(mirrored(plane));
    case 4:
      return upside_down(plane);
    case 5:
      return transposed(plane);
    case 6:
      return transposed(upside_down(plane));
    case 7:
      return transposed(upside_down(mirrored(plane)));
    case 8:
      return transposed(mirrored(plane));
    default:
      return plane;
  }
}

bool turns(int64_t orientation) { return orientation >= 5 && orientation <= 8; }

void colours_to_planes(const PixelPlane& red_plane, int64_t pixels, uint8_t* red) {
  uint8_t* green = red + pixels;
  uint8_t* blue = green + pixels;
  const uint8_t* pixel = red_plane.first;
  for (int64_t i = 0; i < pixels; ++i, pixel += 3) {
    red[i] = pixel[0];
    green[i] = pixel[1];
    blue[i] = pixel[2];
  }
}

}  // namespace

Pixels interleaved(const uint8_t* first, const ImageSize& size, int64_t pixel_bytes, int64_t channel_bytes) {
  Pixels pixels{.size = size};
  for (int64_t c = 0; c < size.channels; ++c) {
    pixels.planes[static_cast<size_t>(c)] = {first + c * channel_bytes, size.width * pixel_bytes, pixel_bytes,
                                             size.height, size.width};
  }
  return pixels;
}

ImageSize oriented(ImageSize size, int64_t orientation) {
  if (turns(orientation)) std::swap(size.height, size.width);
  return size;
}

Pixels oriented(Pixels pixels, int64_t orientation) {
  pixels.size = oriented(pixels.size, orientation);
  if (turns(orientation)) std::swap(pixels.chroma_height, pixels.chroma_width);
  for (int64_t c = 0; c < pixels.size.channels; ++c) {
    PixelPlane& plane = pixels.planes[static_cast<size_t>(c)];
    plane = oriented(plane, orientation);
  }
  return pixels;
}

void to_planes(const Pixels& pixels, std::span<uint8_t> planes) {
  const ImageSize& size = pixels.size;
  const PixelPlane& first = pixels.planes[0];
  const bool plain = size.channels == 3 && first.step == 3 && first.row == 3 * size.width &&
                     pixels.planes[1].first == first.first + 1 && pixels.planes[2].first == first.first + 2;
  if (plain) return colours_to_planes(first, size.height * size.width, planes.data());
  uint8_t* to = planes.data();
  for (int64_t c = 0; c < size.channels; ++c) {
    const PixelPlane& plane = pixels.planes[static_cast<size_t>(c)];
    for (int64_t y = 0; y < size.height; ++y) {
      const uint8_t* from = plane.first + y * plane.row;
      for (int64_t x = 0; x < size.width; ++x) *to++ = from[x * plane.step];
    }
  }
}

void give(const Pixels& pixels, const PixelSink& sink) {
  if (PixelTaker* taker = sink.taker()) return taker->take(pixels);
  to_planes(pixels, sink(pixels.size));
}

}  // namespace lockstep::data
