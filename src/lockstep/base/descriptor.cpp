#include "lockstep/base/descriptor.h"

#include <cerrno>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "lockstep/base/error.h"

namespace lockstep {

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    if (value_ >= 0) ::close(value_);
    value_ = other.release();
  }
  return *this;
}

Descriptor::~Descriptor() {
  if (value_ >= 0) ::close(value_);
}

OpenFile::OpenFile(std::filesystem::path path, int flags, std::filesystem::path shown)
    // Does not wait, because the other end of a pipe in a folder may never come.
    : path_(std::move(path)),
      shown_(shown.empty() ? path_ : std::move(shown)),
      descriptor_(::open(path_.c_str(),
                         flags | O_CLOEXEC | ((flags & O_ACCMODE) == O_RDONLY ? O_NONBLOCK : 0), 0644)) {
  if (!descriptor_) throw errno_error(errno, (flags & O_CREAT) != 0 ? "create" : "open", shown_.string());
  struct stat status {};
  struct statfs system {};
  if ((flags & O_ACCMODE) != O_RDONLY || ::fstat(get(), &status) != 0 || S_ISREG(status.st_mode) ||
      S_ISDIR(status.st_mode))
    return;
  if (S_ISFIFO(status.st_mode) && (::fstatfs(get(), &system) != 0 || system.f_type != PIPEFS_MAGIC))
    throw Error(ErrorCode::io, "cannot read \"" + shown_.string() + "\": it is a pipe and no file");
  ::fcntl(get(), F_SETFL, ::fcntl(get(), F_GETFL) & ~O_NONBLOCK);
}

size_t OpenFile::read_at(int64_t offset, std::span<char> destination) const {
  size_t have = 0;
  while (have < destination.size()) {
    const ssize_t got = ::pread(get(), destination.data() + have, destination.size() - have,
                                static_cast<off_t>(offset) + static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw errno_error(errno, "read", shown_.string());
    if (got == 0) break;
    have += static_cast<size_t>(got);
  }
  return have;
}

void OpenFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw errno_error(errno, "write", shown_.string());
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

void OpenFile::write_at(int64_t offset, std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw errno_error(errno, "write", shown_.string());
    offset += written;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

void OpenFile::sync() {
  // EINVAL: a device or a pipe, which has nothing to sync.
  if (::fsync(get()) != 0 && errno != EINVAL) throw errno_error(errno, "sync", shown_.string());
}

void OpenFile::close() {
  if (::close(descriptor_.release()) != 0 && errno != EINTR)
    throw errno_error(errno, "close", shown_.string());
}

}  // namespace lockstep
