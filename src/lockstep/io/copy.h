// Copying all files of one store to another place.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>

#include "lockstep/io/byte_store.h"

namespace lockstep::io {

struct CopyProgress {
  int64_t files = 0;  ///< done, those that were there already included
  int64_t all_files = 0;
  int64_t bytes = 0;
  int64_t all_bytes = 0;
  int64_t there_already = 0;  ///< files with equal size and checksum at the destination, not copied again
  int64_t left_out = 0;       ///< what a listing gives as Listed::Kind::other
};

struct CopyOptions {
  bool verify = false;  ///< read what was written and compare checksums
  std::stop_token stop = {};
  std::function<void(const CopyProgress&)> progress = {};  ///< called now and then, by one thread at a time
};

/// Copies each file under its path; files at the destination that the source has not stay there. A file of
/// equal size at the destination is read there and here and left alone when the checksums (XXH3) are equal.
/// In an archive the files are in the order of their paths. Throws what the stores throw, with how far it
/// came; cancelled when stopped. What was copied by then is whole, and a second call goes on from there; an
/// archive is begun anew.
CopyProgress copy_files(const ByteStore& from, ByteSink& to, const CopyOptions& options = {});

}  // namespace lockstep::io
