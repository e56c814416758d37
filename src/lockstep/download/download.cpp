#include "lockstep/download/download.h"

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/download/internal/transfer.h"
#include "lockstep/download/sha256.h"

namespace lockstep::download {
namespace {

constexpr auto kPause = std::chrono::milliseconds(50);  // between two looks at a lock of another process

std::filesystem::path beside(std::filesystem::path path, const char* ending) {
  path += ending;
  return path;
}

// One process at a time downloads a file; the others wait. The lock's file is removed at the end.
class FileLock {
 public:
  FileLock(std::filesystem::path path, const Options& options) : path_(std::move(path)) {
    do {
      descriptor_ = Descriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
      if (!descriptor_) throw errno_error(errno, "write", path_.string());
      wait(options);
    } while (!is_of_path());  // its holder has removed it meanwhile
  }
  ~FileLock() { ::unlink(path_.c_str()); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  void wait(const Options& options) const {
    while (::flock(descriptor_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) throw errno_error(errno, "lock", path_.string());
      if (options.stop.stop_requested())
        throw Error(ErrorCode::cancelled,
                    "stopped while waiting for another process, which holds \"" + path_.string() + "\"");
      std::this_thread::sleep_for(kPause);
    }
  }

  bool is_of_path() const {
    struct stat own {
    }, there{};
    return ::fstat(descriptor_.get(), &own) == 0 && ::stat(path_.c_str(), &there) == 0 &&
           own.st_dev == there.st_dev && own.st_ino == there.st_ino;
  }

  std::filesystem::path path_;
  Descriptor descriptor_;
};

int64_t bytes_of(const OpenFile& file) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw errno_error(errno, "read", file.path().string());
  return status.st_size;
}

Error wrong_hash(const PublishedFile& file, const std::string& found, int64_t bytes) {
  return {ErrorCode::corrupt_data,
          "\"" + file.address + "\" is not the published file: its SHA-256 begins with " +
              found.substr(0, file.sha256.size()) + ", not " + file.sha256 + " (" + with_commas(bytes) +
              " bytes were received)",
          "try again later; if it stays, a proxy or mirror gives another file"};
}

// Downloads to `part`, continuing what is there. A continued file with the wrong hash may have begun as
// another file, so it is downloaded once more from its beginning.
void fetch_part(const PublishedFile& file, const std::filesystem::path& part, const Options& options) {
  OpenFile opened(part, O_RDWR | O_CREAT | O_NOFOLLOW);
  Transfer transfer{.bytes = bytes_of(opened)};
  while (true) {
    const bool had_some = transfer.bytes > 0;
    transfer_to(opened, file, options, transfer);
    opened.sync();
    const std::string found = sha256_of_file(part, options.stop);
    if (found.starts_with(file.sha256)) break;
    const int64_t bytes = transfer.bytes;
    if (::ftruncate(opened.get(), 0) != 0) throw errno_error(errno, "write", part.string());
    if (!had_some) {
      ::unlink(part.c_str());
      throw wrong_hash(file, found, bytes);
    }
    transfer = {};
  }
  opened.close();
}

}  // namespace

bool is_there(const PublishedFile& file, const std::filesystem::path& path, const std::stop_token& stop) {
  std::error_code none;
  return std::filesystem::is_regular_file(path, none) && sha256_of_file(path, stop).starts_with(file.sha256);
}

void fetch(const PublishedFile& file, const std::filesystem::path& path, const Options& options) {
  if (is_there(file, path, options.stop)) return;
  if (path.has_parent_path()) make_folders(path.parent_path());
  const FileLock lock(beside(path, ".lock"), options);
  if (is_there(file, path, options.stop)) return;
  const std::filesystem::path part = beside(path, ".part");
  fetch_part(file, part, options);
  rename_path(part, path);
  sync_folder(path.has_parent_path() ? path.parent_path() : ".");
}

std::string on_mirror(const std::string& mirror, const std::string& address) {
  if (!mirror.starts_with("https://") && !mirror.starts_with("http://"))
    throw Error(ErrorCode::invalid_option, "the mirror \"" + mirror + "\" is no address of a web server",
                "it must begin with https:// or http://, such as https://example.org/models");
  return mirror + (mirror.ends_with('/') ? "" : "/") + address.substr(address.rfind('/') + 1);
}

}  // namespace lockstep::download
