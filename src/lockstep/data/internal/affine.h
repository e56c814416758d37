// Geometric changes of 8-bit images with torchvision's results: F.affine and F.rotate with the nearest pixel.
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/base/seed.h"
#include "lockstep/data/transform.h"

namespace lockstep::data {

/// The arguments of torchvision's F.affine. Angles in degrees, translation in pixels.
struct AffineChange {
  double angle = 0;
  double scale = 1;
  double shear_x = 0;
  double shear_y = 0;
  double right = 0;
  double down = 0;
  bool from_corner = false;  ///< around the upper left corner, not the centre
};

/// In place on [C,H,W]; what comes from outside is zero.
void apply_affine(std::span<uint8_t> image, const ImageFormat& format, const AffineChange& change);

/// Draws angle, scale and shear, in this order, and applies them in one step.
void change_shape(std::span<uint8_t> image, const ImageFormat& format, const ShapeChange& change,
                  Random random);

}  // namespace lockstep::data
