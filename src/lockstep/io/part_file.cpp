#include "lockstep/io/internal/part_file.h"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/hash.h"

namespace lockstep::io {
namespace {

// Hidden, so that a folder of images can be used while it contains one; short, because the final name may
// have the maximum length.
constexpr std::string_view kPrefix = ".lockstep-part-";

// Locked while it is written: a lock ends with its process, however the process ends.
OpenFile made_beside(const std::string& path) {
  while (true) {
    uint64_t number = 0;
    if (::getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number))
      throw errno_error(errno, "make", "a random number");
    OpenFile file(path.substr(0, path.rfind('/') + 1) + std::string(kPrefix) + as_hex(number),
                  O_WRONLY | O_CREAT | O_EXCL, path);
    ::flock(file.get(), LOCK_EX);
    // Another process may have removed it as a leftover before it was locked.
    if (::access(file.path().c_str(), F_OK) == 0) return file;
  }
}

}  // namespace

PartFile::PartFile(std::string path) : path_(std::move(path)), file_(made_beside(path_)) {}

PartFile::~PartFile() {
  if (!finished_) ::unlink(file_.path().c_str());
}

void PartFile::finish() {
  const Descriptor lock(
      ::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0));  // keeps the lock until the file is renamed
  file_.close();
  if (::rename(file_.path().c_str(), path_.c_str()) != 0) throw errno_error(errno, "write", path_);
  finished_ = true;
}

bool is_part_name(std::string_view name) { return name.starts_with(kPrefix); }

void remove_left_parts(const std::string& folder) {
  std::error_code code;
  for (std::filesystem::directory_iterator item(folder, code), end; !code && item != end;
       item.increment(code)) {
    if (!is_part_name(item->path().filename().string())) continue;
    const Descriptor file(::open(item->path().c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (file && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(item->path().c_str());
  }
}

}  // namespace lockstep::io
