// TrivialAugmentWide (arXiv:2103.10158) with torchvision's operations, magnitudes and results.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "lockstep/base/seed.h"
#include "lockstep/data/transform.h"

namespace lockstep::data {

/// In torchvision's order.
enum class TrivialOperation {
  identity,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  brightness,
  color,
  contrast,
  sharpness,
  posterize,
  solarize,
  auto_contrast,
  equalize
};
constexpr std::array<const char*, 14> enum_names(TrivialOperation) {
  return {"Identity", "ShearX",   "ShearY",    "TranslateX", "TranslateY", "Rotate",       "Brightness",
          "Color",    "Contrast", "Sharpness", "Posterize",  "Solarize",   "AutoContrast", "Equalize"};
}

/// In place on [C,H,W], as torchvision's _apply_op on a tensor. The magnitude is its own: a tangent, pixels,
/// degrees, a factor minus 1, bits, a threshold, or not used.
void apply_operation(std::span<uint8_t> image, const ImageFormat& format, TrivialOperation operation,
                     double magnitude);

/// Draws one of the operations, one of 31 magnitudes, and for some operations the sign.
void augment_trivially(std::span<uint8_t> image, const ImageFormat& format, Random random);

}  // namespace lockstep::data
