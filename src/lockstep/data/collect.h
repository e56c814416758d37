// A dataset out of mini-batches that a program gives one after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include <ATen/core/Tensor.h>

#include "lockstep/data/datastore.h"

namespace lockstep::data {

struct MiniBatch {
  at::Tensor pictures;  ///< u8 [b,C,H,W] on the CPU, C 1 or 3
  at::Tensor labels;    ///< whole numbers [b] from 0
};

/// Gives the next mini-batch, or nothing after the last.
using NextMiniBatch = std::function<std::optional<MiniBatch>()>;

struct Collected {
  Dataset dataset;              ///< the samples in the order in which they came, copied into memory; classes are named "0", "1", ...
  int64_t mini_batch_size = 0;  ///< of all but the last, which may be smaller
};

/// Takes all mini-batches. Throws invalid_option, with the mini-batch's number, for other types or shapes than above, pictures of several sizes,
/// a negative label, or a mini-batch of another size that is not the last; and when there is none.
Collected collect(const NextMiniBatch& next);

}  // namespace lockstep::data
