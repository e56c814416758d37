// File descriptors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

namespace lockstep {

/// Closed by its owner's destructor.
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

/// An open file. Errors name it.
class OpenFile {
 public:
  /// open(2) with these flags; programs that are started later do not inherit it. Throws not_found, io; also
  /// for a pipe in a folder that is to be read. shown: the name in errors of a file that has `path` only
  /// temporarily.
  OpenFile(std::filesystem::path path, int flags, std::filesystem::path shown = {});

  int get() const { return descriptor_.get(); }
  const std::filesystem::path& path() const { return path_; }

  /// Reads bytes from `offset` on into `destination`; fewer only at the file's end. Returns the number. Any
  /// thread.
  size_t read_at(int64_t offset, std::span<char> destination) const;

  void write(std::string_view bytes);
  /// Writes at `offset`. Any thread.
  void write_at(int64_t offset, std::string_view bytes) const;
  void sync();
  /// Throws if earlier writes did not reach the file system.
  void close();

 private:
  std::filesystem::path path_;
  std::filesystem::path shown_;
  Descriptor descriptor_;
};

}  // namespace lockstep
