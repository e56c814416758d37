#include "lockstep/jobs/job_lock.h"

#include <cerrno>
#include <fcntl.h>

#include "lockstep/base/error.h"
#include "lockstep/base/missing_locks.h"

namespace lockstep::jobs {
namespace {

// Locks of an open file (fcntl(2)): children inherit them like those of flock(2), and they can be asked for
// without being taken, so a reader never makes a lock look held.
struct flock whole_file() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

Descriptor open_lock(const std::filesystem::path& file) {
  Descriptor opened(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!opened) throw errno_error(errno, "open", file.string());
  return opened;
}

bool set(int descriptor, int command, const std::filesystem::path& file) {
  struct flock lock = whole_file();
  while (::fcntl(descriptor, command, &lock) != 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EACCES) return false;
    throw errno_error(errno, "lock", file.string());
  }
  return true;
}

}  // namespace

std::optional<FileLock> FileLock::try_take(const std::filesystem::path& file) {
  Descriptor opened = open_lock(file);
  if (!set(opened.get(), F_OFD_SETLK, file)) return std::nullopt;
  return FileLock(std::move(opened));
}

std::optional<FileLock> FileLock::try_take_where_possible(const std::filesystem::path& file) {
  try {
    return try_take(file);
  } catch (const Error& error) {
    if (!is_without_locks(error.errno_value())) throw;
    return FileLock(open_lock(file));
  }
}

FileLock FileLock::take(const std::filesystem::path& file) {
  Descriptor opened = open_lock(file);
  set(opened.get(), F_OFD_SETLKW, file);
  return FileLock(std::move(opened));
}

bool is_held(const std::filesystem::path& file) {
  const Descriptor opened(::open(file.c_str(), O_RDWR | O_CLOEXEC));
  if (!opened) return false;
  struct flock lock = whole_file();
  if (::fcntl(opened.get(), F_OFD_GETLK, &lock) != 0) throw errno_error(errno, "look at", file.string());
  return lock.l_type != F_UNLCK;
}

}  // namespace lockstep::jobs
