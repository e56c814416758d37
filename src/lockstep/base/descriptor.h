// File descriptors of the system.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

namespace lockstep {

/// Closed with its owner.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();
  int get() const { return value_; }
  int release() { return std::exchange(value_, -1); }
  explicit operator bool() const { return value_ >= 0; }

 private:
  int value_ = -1;
};

/// A file of this path. Errors name it.
class OpenFile {
 public:
  /// open(2) with these flags; a program started later does not have it. Throws not_found, io; also for a
  /// pipe in a folder that is to be read. shown: what errors call a file that has `path` only for the time
  /// being.
  OpenFile(std::filesystem::path path, int flags, std::filesystem::path shown = {});

  int get() const { return descriptor_.get(); }
  const std::filesystem::path& path() const { return path_; }

  /// Bytes from `offset` on into `destination`; fewer only at the file's end. Returns how many. Any thread.
  size_t read_at(int64_t offset, std::span<char> destination) const;

  void write(std::string_view bytes);
  /// At `offset`, wherever that is; any thread.
  void write_at(int64_t offset, std::string_view bytes) const;
  void sync();
  /// Throws where what was written before did not reach the file system.
  void close();

 private:
  std::filesystem::path path_;
  std::filesystem::path shown_;
  Descriptor descriptor_;
};

}  // namespace lockstep
