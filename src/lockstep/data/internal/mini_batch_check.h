// The checks for every mini-batch that a program supplies.
#pragma once

#include <cstdint>

#include "lockstep/data/mini_batch_stream.h"

namespace lockstep::data {

/// The mini-batches before this one.
struct BatchesBefore {
  int64_t count = 0;            ///< samples
  int64_t mini_batch_size = 0;  ///< size of the first
  ImageSize size = {};
  at::ScalarType type = at::kByte;
};

/// Throws invalid_option, with the mini-batch's number (from 1).
void check_mini_batch(const MiniBatch& batch, int64_t number, const BatchesBefore& before);

}  // namespace lockstep::data
