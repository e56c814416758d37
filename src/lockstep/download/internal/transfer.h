// One request to a server, written to a file as it arrives.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/base/descriptor.h"
#include "lockstep/download/download.h"

namespace lockstep::download {

/// Where a transfer continues and what it left.
struct Transfer {
  int64_t bytes = 0;       ///< in the file: before it those to continue after, then all
  bool continued = false;  ///< the server sent what follows the first bytes
};

/// Appends to `part`, which has transfer.bytes bytes, or writes it from its beginning if the server sends the
/// whole file. Throws communication, io, cancelled; what has arrived stays in the file.
void transfer_to(OpenFile& part, const PublishedFile& file, const Options& options, Transfer& transfer);

}  // namespace lockstep::download
