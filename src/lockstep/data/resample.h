// Bilinear resizing with antialiasing of 8-bit planes. The levels equal those of Pillow's
// Image.resize(BILINEAR, box=...).
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/data/pixels.h"

namespace lockstep::data {

/// A part of a plane in pixels; fractions are allowed.
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

/// Scales the part `box` of each of `planes` (all of one size) to fill the planes of `destination`
/// [planes,height,width]. Fastest for planes without gaps and for three interleaved planes. The levels are
/// the same for all layouts and processors.
void resample(std::span<const PixelPlane> planes, const Box& box, PlaneSize destination_size,
              std::span<uint8_t> destination);

}  // namespace lockstep::data
