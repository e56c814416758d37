// Pads sequences of unequal length.
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/data/transform.h"

namespace lockstep::data {

/// Writes sequence `index` of `store` to `destination`, float32 [C,T] with T at least the sequence's length;
/// the other time steps become zero.
void read_padded(const Datastore& store, int64_t index, PaddingSide side, std::span<uint8_t> destination);

}  // namespace lockstep::data
