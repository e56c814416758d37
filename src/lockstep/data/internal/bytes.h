// Files of numbers: unpacked when they are gzip, and never larger than they can honestly be.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/data/internal/files.h"

namespace lockstep::data {

/// Reads one of `files`, which lies directly in their folder, from its start, through gzip when it is
/// compressed; the compressed bytes are then held in memory. Throws not_found or io, out_of_memory, and what
/// the store throws; corrupt_data naming the file when the compressed stream is damaged. One that is cut
/// short ends early.
class ByteFile {
 public:
  ByteFile(const Files& files, std::string path);
  ~ByteFile();
  ByteFile(const ByteFile&) = delete;
  ByteFile& operator=(const ByteFile&) = delete;

  /// For messages.
  const std::string& name() const { return name_; }
  /// Up to `count` bytes, fewer only at the end. Returns how many.
  size_t read(uint8_t* destination, size_t count);
  /// The most bytes that the file can hold once unpacked, from its size where it lies.
  int64_t most_bytes() const;

 private:
  struct Gzip;

  const Files& files_;
  const std::string path_;
  const std::string name_;
  int64_t bytes_ = 0;   // as it lies
  int64_t offset_ = 0;  // of a plain file
  std::unique_ptr<Gzip> gzip_;
};

}  // namespace lockstep::data
