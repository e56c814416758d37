// Copies all files of a store to another place.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "lockstep/io/byte_store.h"

namespace lockstep::io {

struct CopyProgress {
  int64_t files = 0;  ///< number of finished files, including those that existed already
  int64_t all_files = 0;
  int64_t bytes = 0;
  int64_t all_bytes = 0;
  int64_t there_already =
      0;                 ///< files that had the same size and checksum at the destination; not copied again
  int64_t left_out = 0;  ///< entries of kind Listed::Kind::other
};

struct CopyOptions {
  bool verify = false;       ///< read the written files and compare checksums
  std::string without = {};  ///< name of folders that are left out with all files in them; empty: none
  std::stop_token stop = {};
  std::function<void(const CopyProgress&)> progress =
      {};  ///< called from time to time, by one thread at a time
};

/// Copies each file to the same path at the destination. Other files at the destination stay. If the
/// destination has a file of equal size, both files are read, and the file is skipped if the checksums (XXH3)
/// are equal. An archive gets its files in the order of their paths. Throws what the stores throw, with the
/// progress in the context; cancelled when stopped. Files copied before an exception are complete, and a
/// second call continues from there; an archive starts from the beginning.
CopyProgress copy_files(const ByteStore& from, ByteSink& to, const CopyOptions& options = {});

}  // namespace lockstep::io
