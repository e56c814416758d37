// Makes a dataset from mini-batches that a program supplies.
#pragma once

#include <cstdint>

#include "lockstep/data/mini_batch_stream.h"

namespace lockstep::data {

struct Collected {
  Dataset dataset;              ///< copies of the samples in their order of arrival; classes are named
                                ///< "0", "1", ...
  int64_t mini_batch_size = 0;  ///< size of all mini-batches except the last, which may be smaller
};

/// Takes all mini-batches, of type u8. Throws invalid_option with the mini-batch's number for another type or
/// shape, images of different sizes, a negative label, or a mini-batch of a different size that is not the
/// last; also if there are no mini-batches.
Collected collect(const NextMiniBatch& next);

}  // namespace lockstep::data
