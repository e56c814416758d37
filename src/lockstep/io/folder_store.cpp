#include <algorithm>
#include <cerrno>
#include <compare>
#include <filesystem>
#include <mutex>
#include <set>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/stop_scope.h"
#include "lockstep/base/text.h"
#include "lockstep/io/internal/part_file.h"
#include "lockstep/io/internal/stores.h"

namespace lockstep::io {
namespace {

constexpr int64_t kWriters = 4;

struct FolderId {
  dev_t device;
  ino_t number;
  friend auto operator<=>(const FolderId&, const FolderId&) = default;
};

// Lists a folder and everything below it. Links are followed.
class Walk {
 public:
  Walk(const std::string& root, Sizes sizes, const Visit& visit, int64_t most_revisits)
      : root_(root), sizes_(sizes), visit_(visit), most_revisits_(most_revisits) {}

  void run() { enter("", {}); }

 private:
  struct CloseFolder {
    void operator()(DIR* folder) const { ::closedir(folder); }
  };
  using Folder = std::unique_ptr<DIR, CloseFolder>;

  // A link can lead to a folder that contains it, or to a folder with more links.
  FolderId checked_id(DIR* folder, const std::string& path, const std::vector<FolderId>& above) {
    struct stat status {};
    if (::fstat(::dirfd(folder), &status) != 0) throw errno_error(errno, "list", path);
    const FolderId id{status.st_dev, status.st_ino};
    if (above.size() >= kMostDepth || std::find(above.begin(), above.end(), id) != above.end()) {
      throw Error(ErrorCode::invalid_option,
                  "\"" + path +
                      "\" cannot be listed: it is a link to a folder that contains it, or it is more than " +
                      std::to_string(kMostDepth) + " folders deep",
                  "remove the link");
    }
    if (!entered_.insert(id).second && ++revisits_ > most_revisits_) {
      throw Error(ErrorCode::invalid_option,
                  "cannot list \"" + root_ + "\": links lead more than " + with_commas(most_revisits_) +
                      " times to folders that were listed before; the last one is \"" + path + "\"",
                  "remove links to folders that contain links");
    }
    return id;
  }

  void enter(const std::string& relative, std::vector<FolderId> above) {
    if (current_stop().stop_requested()) throw Error(ErrorCode::cancelled, "stopped");
    const std::string path = relative.empty() ? root_ : root_ + "/" + relative;
    const std::string prefix = relative.empty() ? "" : relative + "/";
    Folder folder(::opendir(path.c_str()));
    if (folder == nullptr) throw errno_error(errno, "list", path);
    above.push_back(checked_id(folder.get(), path, above));

    std::vector<std::string> below;
    while (true) {
      errno = 0;
      const dirent* item = ::readdir(folder.get());
      if (item == nullptr) break;
      const std::string_view name = item->d_name;
      if (name == "." || name == ".." || is_part_name(name)) continue;
      struct stat status {};
      const bool unsure = item->d_type == DT_LNK || item->d_type == DT_UNKNOWN;
      const bool asked = unsure || (sizes_ == Sizes::wanted && item->d_type == DT_REG);
      const bool seen = asked && ::fstatat(::dirfd(folder.get()), item->d_name, &status, 0) == 0;
      // A broken link, or a file that was removed meanwhile. For any other cause, reading the file reports
      // it.
      const bool nothing = asked && !seen && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP);
      const mode_t type = seen ? status.st_mode : static_cast<mode_t>(asked ? S_IFREG : DTTOIF(item->d_type));
      const std::string file = prefix + std::string(name);
      if (nothing || (!S_ISDIR(type) && !S_ISREG(type))) {
        visit_({.path = file, .kind = Listed::Kind::other});
      } else if (S_ISDIR(type)) {
        below.emplace_back(name);
      } else {
        visit_({file, seen ? static_cast<int64_t>(status.st_size) : -1, Listed::Kind::file,
                seen ? std::optional(time_of_change(status)) : std::nullopt});
      }
    }
    if (errno != 0) throw errno_error(errno, "list", path);
    folder.reset();

    std::sort(below.begin(), below.end());
    for (const std::string& name : below) {
      if (visit_({.path = prefix + name, .kind = Listed::Kind::folder})) enter(prefix + name, above);
    }
  }

  const std::string& root_;
  const Sizes sizes_;
  const Visit& visit_;
  const int64_t most_revisits_;
  int64_t revisits_ = 0;
  std::set<FolderId> entered_;
};

class FolderStore : public ByteStore {
 public:
  explicit FolderStore(std::string root, const StoreOptions& options = {})
      : root_(std::move(root)), most_revisits_(options.most_revisits) {}

  const std::string& name() const override { return root_; }
  std::string kind() const override { return "folder"; }
  void list(Sizes sizes, const Visit& visit) const override {
    Walk(root_, sizes, visit, most_revisits_).run();
  }
  std::string read(FileName file, int64_t most_bytes) const override {
    return read_file(path_of(file.path), most_bytes);
  }

  std::optional<int64_t> size_of(std::string_view path) const override {
    const std::string whole = path_of(path);
    struct stat status {};
    if (::stat(whole.c_str(), &status) != 0) {
      if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
      throw errno_error(errno, "open", whole);
    }
    if (S_ISDIR(status.st_mode)) return std::nullopt;
    if (!S_ISREG(status.st_mode)) throw Error(ErrorCode::io, "cannot read \"" + whole + "\": not a file");
    return status.st_size;
  }

  size_t read_at(FileName file, int64_t offset, std::span<char> destination) const override {
    return OpenFile(path_of(file.path), O_RDONLY).read_at(offset, destination);
  }

  int64_t parallel_reads() const override { return 0; }

 private:
  std::string path_of(std::string_view path) const {
    return root_ + (root_.empty() || root_.ends_with('/') ? "" : "/") + std::string(path);
  }

  const std::string root_;
  const int64_t most_revisits_;
};

class FolderWriter : public FileWriter {
 public:
  explicit FolderWriter(std::string path) : part_(std::move(path)) {}
  void append(std::string_view bytes) override { part_.file().write(bytes); }
  void finish() override { part_.finish(); }

 private:
  PartFile part_;
};

class FolderSink : public ByteSink {
 public:
  explicit FolderSink(std::string root) : root_(std::move(root)) { make_folders(root_); }

  const std::string& name() const override { return root_; }
  std::shared_ptr<const ByteStore> present() const override { return std::make_shared<FolderStore>(root_); }
  int64_t parallel_writes() const override { return kWriters; }

  std::unique_ptr<FileWriter> create(std::string_view path, int64_t) override {
    const std::vector<std::string> parts = safe_parts(path, "the source");
    if (parts.empty())
      throw Error(ErrorCode::invalid_option,
                  "\"" + std::string(path) + "\" cannot be a file name in \"" + root_ + "\"");
    const std::string whole = root_ + "/" + join(parts, "/");
    make_once(whole.substr(0, whole.rfind('/')));
    return std::make_unique<FolderWriter>(whole);
  }

  // One call for all files: syncing each of many small files would take most of the time.
  void finish() override {
    const OpenFile root(root_, O_RDONLY | O_DIRECTORY);
    if (::syncfs(root.get()) != 0) throw errno_error(errno, "sync", root_);
  }

 private:
  void make_once(const std::string& folder) {
    const std::lock_guard lock(mutex_);
    if (!made_.insert(folder).second) return;
    make_folders(folder);
    remove_left_parts(folder);
  }

  const std::string root_;
  std::mutex mutex_;
  std::set<std::string> made_;
};

// "/" and "" stay unchanged.
std::string without_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

}  // namespace

int64_t time_of_change(const struct stat& status) {
  return status.st_ctim.tv_sec * int64_t{1'000'000'000} + status.st_ctim.tv_nsec;
}

std::shared_ptr<const ByteStore> open_folder(const std::string& where, const StoreOptions& options) {
  std::error_code code;
  const auto status = std::filesystem::status(where.empty() ? "." : where, code);
  if (!std::filesystem::exists(status)) throw errno_error(code ? code.value() : ENOENT, "open", where);
  if (!std::filesystem::is_directory(status)) throw errno_error(ENOTDIR, "open", where);
  return std::make_shared<FolderStore>(without_slash(where), options);
}

std::unique_ptr<ByteSink> open_folder_sink(const std::string& where) {
  return std::make_unique<FolderSink>(without_slash(where));
}

}  // namespace lockstep::io
