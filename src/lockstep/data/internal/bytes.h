// Reads files of numbers, compressed with gzip or not, and never more than the file's size makes plausible.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/data/internal/files.h"

namespace lockstep::data {

/// Reads one of `files`, directly in their folder, from its start. A gzip file is decompressed; its
/// compressed bytes are held in memory. Throws not_found or io, out_of_memory, and what the store throws;
/// corrupt_data naming the file if the compressed stream is damaged. A stream that was cut short ends early.
class ByteFile {
 public:
  ByteFile(const Files& files, std::string path);
  ~ByteFile();
  ByteFile(const ByteFile&) = delete;
  ByteFile& operator=(const ByteFile&) = delete;

  /// For messages.
  const std::string& name() const { return name_; }
  /// Reads up to `count` bytes, fewer only at the end. Returns their number.
  size_t read(uint8_t* destination, size_t count);
  /// Maximum size of the unpacked file in bytes, derived from its stored size.
  int64_t most_bytes() const;

 private:
  struct Gzip;

  const Files& files_;
  const std::string path_;
  const std::string name_;
  int64_t bytes_ = 0;   // as stored
  int64_t offset_ = 0;  // in an uncompressed file
  std::unique_ptr<Gzip> gzip_;
};

}  // namespace lockstep::data
