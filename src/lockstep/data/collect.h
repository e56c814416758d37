// A dataset out of mini-batches that a program gives one after the other.
#pragma once

#include <cstdint>

#include "lockstep/data/mini_batch_stream.h"

namespace lockstep::data {

struct Collected {
  Dataset dataset;  ///< the samples in the order in which they came, copied into memory; classes are named
                    ///< "0", "1", ...
  int64_t mini_batch_size = 0;  ///< of all but the last, which may be smaller
};

/// Takes all mini-batches, of u8. Throws invalid_option, with the mini-batch's number, for other types or
/// shapes, images of several sizes, a negative label, or a mini-batch of another size that is not the last;
/// and when there is none.
Collected collect(const NextMiniBatch& next);

}  // namespace lockstep::data
