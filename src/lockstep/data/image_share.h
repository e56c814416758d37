// Images that several trainings of one process use at once: decoded once, and counted once.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "lockstep/data/image_set.h"

namespace lockstep::data {

/// Any thread may call any member.
class ImageShare {
 public:
  /// The dataset in this format: the set that somebody uses already, if it is of the same images (the same
  /// datastore, or one of equal identity), else a new one, which keeps its images if all sets in use then
  /// take no more than `most_bytes`. One that keeps none is not shared with who has the room, or a cache that
  /// it has not. The images are freed with the last user of the set.
  std::shared_ptr<const ImageSet> open(const Dataset& dataset, const ImageFormat& format, int64_t most_bytes,
                                       std::shared_ptr<const RecordFile> cache = nullptr);

  /// Whether open() would now give a set that keeps its images.
  bool keeps(const Dataset& dataset, const ImageFormat& format, int64_t most_bytes) const;

  /// What the sets in use may take.
  int64_t kept_bytes() const;

 private:
  std::shared_ptr<const ImageSet> find(const Dataset& dataset, const ImageFormat& format) const;
  int64_t room(int64_t most_bytes) const;

  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<const ImageSet>> sets_;
};

}  // namespace lockstep::data
