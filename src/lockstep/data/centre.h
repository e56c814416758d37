// Cuts parts out of images. The centre is cut out of images that were fitted to a larger size, as in tests of
// networks trained on ImageNet.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/data/datastore.h"
#include "lockstep/data/transform.h"

namespace lockstep::data {

/// Throws invalid_option if the whole is lower or narrower than the part.
void check_part(const ImageFormat& part, const ImageFormat& whole);

/// Copies a part from `whole` [C,H,W], which has the format `from`, to `part`, which has the format `to` with
/// equally many channels. (top, left) is the part's upper left corner.
void cut_part(std::span<const uint8_t> whole, const ImageFormat& from, int64_t top, int64_t left,
              std::span<uint8_t> part, const ImageFormat& to);

/// The same for the centre; of an odd difference, the extra row or column is at the bottom or at the right.
void cut_centre(std::span<const uint8_t> whole, const ImageFormat& from, std::span<uint8_t> part,
                const ImageFormat& to);

/// The dataset's images in `format`: each image is fitted to `resize_to` (height, width) as format.resize
/// says, then its centre is cut out in format's size (cut_centre). An empty dataset is returned unchanged.
/// Throws as check_part does.
Dataset cut_out_centre(const Dataset& dataset, const ImageFormat& format,
                       const std::vector<int64_t>& resize_to);

}  // namespace lockstep::data
