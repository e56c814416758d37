// A stored image in the format that is wanted.
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/data/datastore.h"
#include "lockstep/data/transform.h"

namespace lockstep::data {

/// Sample `index` in `format`, decoded as that says, into `destination` [C,H,W]; straight into it when the
/// stored image has the format's size. Any thread.
void read_as(const Datastore& store, int64_t index, const ImageFormat& format,
             std::span<uint8_t> destination);

}  // namespace lockstep::data
