// The lock of a job: held by the process that runs it and by its command, so that a command whose starter was
// killed still counts as running.
#pragma once

#include <filesystem>
#include <optional>

#include "lockstep/base/descriptor.h"

namespace lockstep::jobs {

/// Held until the last process that has its descriptor has closed it or ended. Movable.
class FileLock {
 public:
  /// Makes the file if it is not there. Nothing if somebody else holds it. Throws io.
  static std::optional<FileLock> try_take(const std::filesystem::path& file);
  /// The same. On a file system without locks it is taken too, whoever holds it.
  static std::optional<FileLock> try_take_where_possible(const std::filesystem::path& file);
  /// Waits for it. Throws io.
  static FileLock take(const std::filesystem::path& file);

  int descriptor() const { return file_.get(); }

 private:
  explicit FileLock(Descriptor file) : file_(std::move(file)) {}
  Descriptor file_;
};

/// Asks without taking it.
bool is_held(const std::filesystem::path& file);

}  // namespace lockstep::jobs
