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

}  // namespace lockstep::data
