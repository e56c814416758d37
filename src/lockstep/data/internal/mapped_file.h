// A memory-mapped file that other programs may truncate, on a disk that may fail.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

namespace lockstep::data {

/// The first bytes of an open file, for reading. If bytes are no longer available, the kernel sends SIGBUS,
/// which would end the process; this class turns it into a return value. The handler is installed with the
/// first MappedFile and forwards signals that are not its own. Any thread may call any const member.
class MappedFile {
 public:
  /// `path` is for errors. The descriptor may be closed afterwards. Throws io, out_of_memory.
  MappedFile(int descriptor, int64_t bytes, const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// False if the file does not have these bytes or they cannot be read; `destination` is then undefined.
  bool copy(int64_t offset, std::span<uint8_t> destination) const;
  /// The same, bypassing the caches (streamed_copy).
  bool stream(int64_t offset, std::span<uint8_t> destination) const;
  /// Asks the kernel to map the pages of these bytes now, so that the first copy does not wait for that.
  void enter(int64_t offset, int64_t bytes) const;

 private:
  template <class Work>
  bool guarded(Work&& work) const;

  const uint8_t* begin_;
  int64_t bytes_;
};

}  // namespace lockstep::data
