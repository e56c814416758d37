// A file in memory that may be cut short by others, and lies on a disk that may fail.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

namespace lockstep::data {

/// The first bytes of an open file, for reading. Where such bytes are not there any more, the kernel sends
/// SIGBUS, which would end the process; here it is an answer. The handler is set at the first MappedFile, and
/// hands on what is not its own. Any thread may call any const member.
class MappedFile {
 public:
  /// `path` is for errors. The descriptor may be closed after. Throws io, out_of_memory.
  MappedFile(int descriptor, int64_t bytes, const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// False when these bytes are not in the file or cannot be read; `destination` then holds anything.
  bool copy(int64_t offset, std::span<uint8_t> destination) const;
  /// The same past the caches (streamed_copy).
  bool stream(int64_t offset, std::span<uint8_t> destination) const;
  /// Has the kernel enter the pages of these bytes into the process's tables, so that the first copy does not
  /// wait for that.
  void enter(int64_t offset, int64_t bytes) const;

 private:
  template <class Work>
  bool guarded(Work&& work) const;

  const uint8_t* begin_;
  int64_t bytes_;
};

}  // namespace lockstep::data
