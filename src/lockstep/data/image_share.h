// Data that several trainings of one process use: archives are opened, and images decoded and stored, once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/data/image_set.h"
#include "lockstep/data/sources.h"

namespace lockstep::data {

/// Any thread may call any member.
class ImageShare {
 public:
  ImageShare();

  /// One without sets, which opens files together with this one: to see what sets a training would use.
  std::shared_ptr<ImageShare> without_sets() const;

  /// Returns the dataset in this format. If a set of the same images is in use (the same datastore, or one of
  /// equal identity), that set is shared; otherwise a new one is made, which keeps its images if all sets in
  /// use then take at most `most_bytes`. A set that keeps no images is not shared with a caller that has room
  /// for them, or has a cache that the set does not have. The images are freed with the last user of the set.
  std::shared_ptr<const ImageSet> open(const Dataset& dataset, const ImageFormat& format, int64_t most_bytes,
                                       std::shared_ptr<const RecordFile> cache = nullptr);

  /// Whether open() would now return a set that keeps its images.
  bool keeps(const Dataset& dataset, const ImageFormat& format, int64_t most_bytes) const;

  /// open_source. The last files (archives) are kept, each as long as it has its size and time of change: to
  /// list a compressed archive, all of it is read.
  Source open_source(const std::filesystem::path& path, const SourceOptions& options);

  /// Maximum memory for the sets in use, in bytes.
  int64_t kept_bytes() const;

  /// A set in use that keeps its images.
  struct KeptSet {
    std::string key{};  ///< of its images and their form: the same for sets that would be shared; empty: it
                        ///< has images that no other datastore has
    int64_t bytes = 0;
  };
  std::vector<KeptSet> kept_sets() const;

 private:
  std::shared_ptr<const ImageSet> find(const Dataset& dataset, const ImageFormat& format) const;
  int64_t room(int64_t most_bytes) const;

  struct OpenedFile;
  struct OpenedFiles;

  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<const ImageSet>> sets_;
  std::shared_ptr<OpenedFiles> files_;
};

}  // namespace lockstep::data
