// The colour changes of Augment::apply.
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/base/seed.h"
#include "lockstep/data/transform.h"

namespace lockstep::data {

/// In place on [C,H,W].
void jitter_colors(std::span<uint8_t> image, const ImageFormat& format, const ColorJitter& jitter,
                   Random random);

/// The change by a given factor, as torchvision's F.adjust_brightness and so on.
enum class ColorChange { brightness, contrast, saturation };
void change_color(std::span<uint8_t> image, const ImageFormat& format, ColorChange change, double factor);

}  // namespace lockstep::data
