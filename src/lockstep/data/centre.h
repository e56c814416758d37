// Parts of images, as they are; and images whose centre is cut out after they were fitted to a larger
// size, as networks trained on ImageNet were tested.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/data/datastore.h"
#include "lockstep/data/transform.h"

namespace lockstep::data {

/// Throws invalid_option where the whole is lower or narrower than the part.
void check_part(const ImageFormat& part, const ImageFormat& whole);

/// Copies the part with the upper left corner (top, left) of `whole` [C,H,W] in the format `from` to `part`
/// in the format `to`, of as many channels.
void cut_part(std::span<const uint8_t> whole, const ImageFormat& from, int64_t top, int64_t left,
              std::span<uint8_t> part, const ImageFormat& to);

/// The same of the centre; an odd row or column more is left over below and at the right.
void cut_centre(std::span<const uint8_t> whole, const ImageFormat& from, std::span<uint8_t> part,
                const ImageFormat& to);

/// The dataset's images in `format`: fitted to `resize_to` (height, width) as format.resize says, then the
/// centre of format's size is cut out (cut_centre). An empty dataset as it is. Throws as check_part does.
Dataset cut_out_centre(const Dataset& dataset, const ImageFormat& format,
                       const std::vector<int64_t>& resize_to);

}  // namespace lockstep::data
