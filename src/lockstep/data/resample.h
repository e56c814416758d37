// Bilinear resizing with antialias of one 8-bit plane, level for level as Pillow's Image.resize(BILINEAR, box=...).
#pragma once

#include <cstdint>
#include <span>

namespace lockstep::data {

/// A part of a plane in pixels, fractions allowed.
struct Box {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
};

struct PlaneSize {
  int64_t height = 0;
  int64_t width = 0;
  int64_t pixels() const { return height * width; }
};

/// Scales the part `box` of `source` [height,width] to fill `destination` [height,width].
void resample(PlaneSize source_size, std::span<const uint8_t> source, const Box& box, PlaneSize destination_size,
              std::span<uint8_t> destination);

}  // namespace lockstep::data
