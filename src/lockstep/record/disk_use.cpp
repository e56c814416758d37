#include "lockstep/record/disk_use.h"

#include <dirent.h>
#include <fcntl.h>
#include <set>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "lockstep/base/descriptor.h"

namespace lockstep::record {
namespace {

struct DiskUse {
  int64_t bytes = 0;
  std::set<std::pair<dev_t, ino_t>> seen{};
};

constexpr int kMostDepthOfFiles = 64;

// Relative to a descriptor, so that a folder that is replaced by a link meanwhile leads nowhere else.
void add_folder(int parent, const char* name, int depth, DiskUse& use) {
  const Descriptor opened(::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!opened || depth > kMostDepthOfFiles) return;
  DIR* folder = ::fdopendir(::dup(opened.get()));
  if (folder == nullptr) return;
  while (const dirent* entry = ::readdir(folder)) {
    const std::string_view called = entry->d_name;
    struct stat status {};
    if (called == "." || called == ".." ||
        ::fstatat(opened.get(), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    if (S_ISDIR(status.st_mode)) {
      add_folder(opened.get(), entry->d_name, depth + 1, use);
    } else if (S_ISREG(status.st_mode)) {
      if (status.st_nlink < 2 || use.seen.insert({status.st_dev, status.st_ino}).second)
        use.bytes += status.st_size;
    }
  }
  ::closedir(folder);
}

}  // namespace

int64_t disk_use(const std::filesystem::path& folder) {
  DiskUse use;
  // The folder itself may be named by a link.
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened) add_folder(opened.get(), ".", 0, use);
  return use.bytes;
}

}  // namespace lockstep::record
