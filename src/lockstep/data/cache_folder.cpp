#include "lockstep/data/cache_folder.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"

namespace lockstep::data {
namespace {

constexpr int64_t kShareOfDisk = 4;  // at most 1/4 of the disk's free space
constexpr int kMostLooks = 100;
constexpr std::array kEndings{".images", ".features"};

struct CacheFile {
  std::filesystem::path path;
  int64_t bytes = 0;
  timespec used{};
  bool open = false;       // in use by a process
  bool left_over = false;  // left by a killed process
};

bool before(const timespec& a, const timespec& b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

// Symbolic links are not followed, and a pipe is not waited for.
CacheFile look_at(const std::filesystem::path& path) {
  CacheFile found{.path = path};
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return found;
  found.bytes = int64_t{status.st_blocks} * 512;
  found.used = status.st_mtim;
  found.open = ::flock(file.get(), LOCK_EX | LOCK_NB) != 0;
  return found;
}

std::vector<CacheFile> caches_in(const std::filesystem::path& folder) {
  std::vector<CacheFile> caches;
  for (const auto& item : std::filesystem::directory_iterator(folder)) {
    const std::string name = item.path().filename().string();
    const bool left_over = std::any_of(kEndings.begin(), kEndings.end(), [&](const char* ending) {
      return name.find(std::string(ending) + ".new-") != std::string::npos;
    });
    if (!left_over && std::none_of(kEndings.begin(), kEndings.end(),
                                   [&](const char* ending) { return name.ends_with(ending); }))
      continue;
    caches.push_back(look_at(item.path()));
    caches.back().left_over = left_over && !caches.back().open;
  }
  return caches;
}

Descriptor locked(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "lock";
  Descriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock) throw errno_error(errno, "open", path.string());
  while (::flock(lock.get(), LOCK_EX) != 0) {
    if (errno != EINTR) throw errno_error(errno, "lock", path.string());
  }
  return lock;
}

int64_t total(const std::vector<CacheFile>& caches, bool open_only) {
  int64_t bytes = 0;
  for (const CacheFile& cache : caches) bytes += !open_only || cache.open ? cache.bytes : 0;
  return bytes;
}

}  // namespace

// A file system without locks or times supports neither; the cache still works.
void mark_in_use(int descriptor) {
  // A process that makes room holds the other lock only for a moment; if it takes longer, training does not
  // wait.
  for (int look = 0; look < kMostLooks && ::flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
       ++look)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ::futimens(descriptor, nullptr);
}

std::string unfit_for_caches(const std::filesystem::path& folder) {
  struct Kind {
    int64_t magic;
    const char* name;
  };
  // File system types of statfs(2). Those without a name in linux/magic.h are Lustre, IBM Storage Scale
  // (GPFS) and BeeGFS.
  constexpr std::array kinds{
      Kind{NFS_SUPER_MAGIC, "NFS"},   Kind{SMB_SUPER_MAGIC, "SMB"},   Kind{SMB2_SUPER_MAGIC, "SMB"},
      Kind{CIFS_SUPER_MAGIC, "SMB"},  Kind{CEPH_SUPER_MAGIC, "Ceph"}, Kind{AFS_SUPER_MAGIC, "AFS"},
      Kind{AFS_FS_MAGIC, "AFS"},      Kind{CODA_SUPER_MAGIC, "Coda"}, Kind{V9FS_MAGIC, "9p"},
      Kind{FUSE_SUPER_MAGIC, "FUSE"}, Kind{0x0BD00BD0, "Lustre"},     Kind{0x47504653, "GPFS"},
      Kind{0x19830326, "BeeGFS"}};
  std::filesystem::path there = folder;
  std::error_code none;
  while (!std::filesystem::exists(there, none) && there.has_relative_path()) there = there.parent_path();
  struct statfs system {};
  if (::statfs(there.c_str(), &system) != 0) return {};
  if (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC)
    return "\"" + folder.string() + "\" is in memory";
  const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const Kind& known) {
    return known.magic == (system.f_type & 0xFFFFFFFF);
  });
  return kind == kinds.end() ? std::string()
                             : "\"" + folder.string() + "\" is on a network file system (" + kind->name + ")";
}

CacheFolder::CacheFolder(std::filesystem::path path) : path_(std::move(path)) {
  if (!std::filesystem::exists(path_)) {
    make_folders(path_);
    // Data that a store gives only with a key must not be readable for other users of this machine.
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all);
  }
  lock_ = locked(path_);
}

CacheFolder::Found CacheFolder::find_or_make(const std::string& name, const RecordsKey& key,
                                             int64_t most_bytes) const {
  if (auto file = RecordFile::find(path_ / name, key)) return {std::move(file)};
  if (std::string refusal = make_room(key.file_bytes(), most_bytes); !refusal.empty())
    return {nullptr, std::move(refusal)};
  return {RecordFile::find_or_make(path_ / name, key)};
}

std::string CacheFolder::make_room(int64_t bytes, int64_t most_bytes) const {
  std::vector<CacheFile> caches = caches_in(path_);
  for (const CacheFile& cache : caches) {
    if (cache.left_over) ::unlink(cache.path.c_str());
  }
  std::erase_if(caches, [](const CacheFile& cache) { return cache.left_over; });

  int64_t there = total(caches, /*open_only=*/false);
  const int64_t share_of_disk =
      (static_cast<int64_t>(std::filesystem::space(path_).available) + there) / kShareOfDisk;
  const int64_t allowed = std::min(most_bytes, share_of_disk);
  const std::string limit =
      as_bytes(allowed) + (share_of_disk < most_bytes ? ", a quarter of the disk's free space" : " allowed");
  if (bytes > allowed) return "it would take " + as_bytes(bytes) + ", more than the " + limit;
  if (const int64_t open = total(caches, /*open_only=*/true); bytes > allowed - open) {
    return "it would take " + as_bytes(bytes) + ", and the caches in use take " + as_bytes(open) +
           " of the " + limit;
  }
  std::sort(caches.begin(), caches.end(),
            [](const CacheFile& a, const CacheFile& b) { return before(a.used, b.used); });
  for (const CacheFile& cache : caches) {
    if (there + bytes <= allowed) break;
    if (!cache.open && ::unlink(cache.path.c_str()) == 0) there -= cache.bytes;
  }
  return {};
}

}  // namespace lockstep::data
