// Reads a stored image in the requested format.
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/data/datastore.h"
#include "lockstep/data/transform.h"

namespace lockstep::data {

/// Decodes sample `index` as `format` says, into `destination` [C,H,W]; directly, if the stored image has the
/// format's size. Any thread.
void read_as(const Datastore& store, int64_t index, const ImageFormat& format,
             std::span<uint8_t> destination);

}  // namespace lockstep::data
