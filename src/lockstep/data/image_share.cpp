#include "lockstep/data/image_share.h"

#include <algorithm>

namespace lockstep::data {
namespace {

bool same_images(const Datastore& a, const Datastore& b) {
  return &a == &b || (!a.identity().empty() && a.identity() == b.identity());
}

int64_t bytes_of(const std::vector<std::weak_ptr<const ImageSet>>& sets) {
  int64_t bytes = 0;
  for (const auto& weak : sets) {
    if (const auto set = weak.lock()) bytes += set->kept_bytes();
  }
  return bytes;
}

}  // namespace

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

}  // namespace lockstep::data
