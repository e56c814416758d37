#include "lockstep/record/disk_use.h"

#include <dirent.h>
#include <fcntl.h>
#include <set>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "lockstep/base/descriptor.h"

namespace lockstep::record {
namespace {

constexpr size_t kMostDepthOfFiles = 64;
constexpr int kFolder = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

// The names of the folders that lead to one.
using Place = std::vector<std::string>;

// Name by name, so that a folder that is replaced by a link meanwhile leads nowhere else.
Descriptor open_below(const Descriptor& root, const Place& place) {
  Descriptor folder(::openat(root.get(), ".", kFolder));
  for (const std::string& name : place) {
    if (!folder) break;
    folder = Descriptor(::openat(folder.get(), name.c_str(), kFolder | O_NOFOLLOW));
  }
  return folder;
}

/// A walk that has few files open at a time, however deep the folder is: lists of runs look at several runs
/// side by side.
class Walk {
 public:
  explicit Walk(const Descriptor& root) : root_(root) {}

  int64_t bytes() {
    for (std::vector<Place> left{{}}; !left.empty();) {
      const Place place = std::move(left.back());
      left.pop_back();
      for (std::string& name : add_files(place)) {
        if (place.size() == kMostDepthOfFiles) break;
        left.push_back(place);
        left.back().push_back(std::move(name));
      }
    }
    return bytes_;
  }

 private:
  // Returns the names of the folders in this one. What has gone meanwhile counts as nothing.
  std::vector<std::string> add_files(const Place& place) {
    std::vector<std::string> folders;
    Descriptor opened = open_below(root_, place);
    DIR* const folder = opened ? ::fdopendir(opened.get()) : nullptr;
    if (folder == nullptr) return folders;
    const int descriptor = opened.release();  // closedir closes it
    while (const dirent* entry = ::readdir(folder)) {
      const std::string_view name = entry->d_name;
      struct stat status {};
      if (name == "." || name == ".." ||
          ::fstatat(descriptor, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        continue;
      if (S_ISDIR(status.st_mode)) {
        folders.emplace_back(name);
      } else if (S_ISREG(status.st_mode)) {
        if (status.st_nlink < 2 || seen_.insert({status.st_dev, status.st_ino}).second)
          bytes_ += status.st_size;
      }
    }
    ::closedir(folder);
    return folders;
  }

  const Descriptor& root_;
  int64_t bytes_ = 0;
  std::set<std::pair<dev_t, ino_t>> seen_;  // files with several names
};

}  // namespace

int64_t disk_use(const std::filesystem::path& folder) {
  // The folder itself may be named by a link.
  const Descriptor root(::open(folder.c_str(), kFolder));
  return root ? Walk(root).bytes() : 0;
}

}  // namespace lockstep::record
