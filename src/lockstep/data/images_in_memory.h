// Images of a C++ program, which no file holds.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/data/datastore.h"

namespace lockstep::data {

/// A dataset of 8-bit images of one size: a copy of `pixels`, [n,C,H,W] as in a contiguous tensor of type
/// uint8, with n labels. C is 1 or 3. A model sees a pixel divided by 255, unless --normalize says otherwise.
/// Throws invalid_option if the numbers of pixels and labels do not suit each other, or for a label that is
/// not that of a class.
Dataset make_images(const ImageSize& size, std::vector<std::string> classes, std::span<const uint8_t> pixels,
                    std::vector<int64_t> labels);

}  // namespace lockstep::data
