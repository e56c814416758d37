// Files of numbers: read whole, unpacked when they are gzip, and never larger than they can honestly be.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace lockstep::data {

/// Reads a file from its start, through gzip when it is compressed. Throws not_found or io; corrupt_data naming the file when the compressed
/// stream is damaged.
class ByteFile {
 public:
  explicit ByteFile(const std::filesystem::path& path);
  ~ByteFile();
  ByteFile(const ByteFile&) = delete;
  ByteFile& operator=(const ByteFile&) = delete;

  /// Up to `count` bytes, fewer only at the end. Returns how many.
  size_t read(uint8_t* destination, size_t count);
  /// The most bytes that the file can hold once unpacked, from its size on the disk.
  int64_t most_bytes() const { return most_bytes_; }

 private:
  std::string path_;
  void* stream_ = nullptr;
  int64_t most_bytes_ = 0;
};

}  // namespace lockstep::data
