// Pictures whose centre is cut out after they were fitted to a larger size, as networks trained on ImageNet were tested.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/data/datastore.h"
#include "lockstep/data/transform.h"

namespace lockstep::data {

/// The dataset's pictures in `format`: fitted to `resize_to` (height, width) as format.resize says, then the centre of format's size is cut out; an odd
/// row or column more is left over below and at the right. An empty dataset as it is. Throws invalid_option where `resize_to` is smaller than the format.
Dataset cut_out_centre(const Dataset& dataset, const PictureFormat& format, const std::vector<int64_t>& resize_to);

}  // namespace lockstep::data
