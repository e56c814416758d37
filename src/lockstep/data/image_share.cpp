#include "lockstep/data/image_share.h"

#include <algorithm>
#include <optional>
#include <sys/stat.h>
#include <tuple>

namespace lockstep::data {
namespace {

bool same_images(const Datastore& a, const Datastore& b) {
  return &a == &b || (!a.identity().empty() && a.identity() == b.identity());
}

std::string key_of(const ImageSet& set) {
  std::string key = set.dataset().store().identity();
  if (key.empty()) return key;
  const ImageFormat& form = set.format();
  for (const int64_t part : {form.channels, form.height, form.width, static_cast<int64_t>(form.resize),
                             static_cast<int64_t>(form.decode)})
    key += " " + std::to_string(part);
  return key;
}

int64_t bytes_of(const std::vector<std::weak_ptr<const ImageSet>>& sets) {
  int64_t bytes = 0;
  for (const auto& weak : sets) {
    if (const auto set = weak.lock()) bytes += set->kept_bytes();
  }
  return bytes;
}

}  // namespace

struct ImageShare::OpenedFile {
  // The file that a path names or goes into, and what changes if it is written again.
  struct Version {
    std::filesystem::path file{};
    ino_t inode = 0;
    off_t bytes = 0;
    int64_t seconds = 0, nanoseconds = 0;

    bool operator==(const Version&) const = default;
  };

  static std::optional<Version> version_of(std::filesystem::path path) {
    for (; path.has_relative_path(); path = path.parent_path()) {
      struct stat found {};
      if (::stat(path.c_str(), &found) != 0) continue;
      if (!S_ISREG(found.st_mode)) return std::nullopt;
      return Version{path, found.st_ino, found.st_size, found.st_mtim.tv_sec, found.st_mtim.tv_nsec};
    }
    return std::nullopt;
  }

  bool is(const Version& other, const std::filesystem::path& asked, const SourceOptions& with) const {
    const auto parts = [](const SourceOptions& one) {
      return std::tie(one.labels, one.on_bad_sample, one.classes, one.unlabelled, one.test_part);
    };
    return version == other && path == asked && parts(options) == parts(with);
  }

  Version version;
  std::filesystem::path path;  // also within an archive
  SourceOptions options;
  Source source;
};

struct ImageShare::OpenedFiles {
  std::mutex mutex;
  std::vector<std::shared_ptr<const OpenedFile>> list;  // the oldest first
};

ImageShare::ImageShare() : files_(std::make_shared<OpenedFiles>()) {}

std::shared_ptr<ImageShare> ImageShare::without_sets() const {
  auto share = std::make_shared<ImageShare>();
  share->files_ = files_;
  return share;
}

Source ImageShare::open_source(const std::filesystem::path& path, const SourceOptions& options) {
  constexpr size_t kKept = 3;  // of a training: its data, held-out data and test data
  const auto version = OpenedFile::version_of(path);
  if (!version) return data::open_source(path, options);
  const std::lock_guard lock(files_->mutex);  // held while it is read: others need the same file
  auto& files = files_->list;
  for (const auto& file : files) {
    if (file->is(*version, path, options)) return file->source;
  }
  Source source = data::open_source(path, options);
  if (files.size() == kKept) files.erase(files.begin());
  files.push_back(std::make_shared<const OpenedFile>(OpenedFile{*version, path, options, source}));
  return source;
}

std::shared_ptr<const ImageSet> ImageShare::open(const Dataset& dataset, const ImageFormat& format,
                                                 int64_t most_bytes,
                                                 std::shared_ptr<const RecordFile> cache) {
  const std::lock_guard lock(mutex_);
  const int64_t room = this->room(most_bytes);
  if (auto set = find(dataset, format)) {
    const bool has_our_cache = cache == nullptr || set->cache() != nullptr;
    if (set->kept() || dataset.empty() || (has_our_cache && !ImageSet::keeps(dataset, format, room)))
      return set;
  }
  std::erase_if(sets_, [](const auto& set) { return set.expired(); });
  auto set = std::make_shared<const ImageSet>(dataset, format, room, std::move(cache));
  sets_.push_back(set);
  return set;
}

bool ImageShare::keeps(const Dataset& dataset, const ImageFormat& format, int64_t most_bytes) const {
  const std::lock_guard lock(mutex_);
  const auto set = find(dataset, format);
  return (set != nullptr && set->kept()) ||
         (!dataset.empty() && ImageSet::keeps(dataset, format, room(most_bytes)));
}

int64_t ImageShare::room(int64_t most_bytes) const {
  return std::max<int64_t>(0, most_bytes - bytes_of(sets_));
}

// A set that keeps its images, if there is one.
std::shared_ptr<const ImageSet> ImageShare::find(const Dataset& dataset, const ImageFormat& format) const {
  std::shared_ptr<const ImageSet> found;
  for (const auto& weak : sets_) {
    auto set = weak.lock();
    if (set == nullptr || set->format() != format || !same_images(set->dataset().store(), dataset.store()))
      continue;
    if (set->kept()) return set;
    found = std::move(set);
  }
  return found;
}

int64_t ImageShare::kept_bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_of(sets_);
}

std::vector<ImageShare::KeptSet> ImageShare::kept_sets() const {
  const std::lock_guard lock(mutex_);
  std::vector<KeptSet> kept;
  for (const auto& weak : sets_) {
    if (const auto set = weak.lock(); set != nullptr && set->kept_bytes() > 0)
      kept.push_back({key_of(*set), set->kept_bytes()});
  }
  return kept;
}

}  // namespace lockstep::data
