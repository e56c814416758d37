// Decoded pictures in a file, so that they are decoded once for all runs, processes and trials that want them in one format.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "lockstep/base/descriptor.h"
#include "lockstep/data/datastore.h"
#include "lockstep/data/transform.h"

namespace lockstep::data {

class MappedFile;

/// Whether a cache that is not there, or not of these pictures any more, is made.
enum class CacheUse { read, make };

/// The pictures of one datastore in one format, each with its checksum (XXH3). The file may be read and filled by any number of processes at
/// once: a record is there when its checksum fits, so one that was cut short, damaged or half written is decoded again. The file is mapped, so all
/// who read it share its memory; records that somebody truncates meanwhile, or a disk cannot read, are not there (MappedFile).
/// Any thread may call any const member.
class PictureCache {
 public:
  /// What a cache of these pictures takes on the disk.
  static int64_t bytes_for(const Datastore& store, const PictureFormat& format);

  /// Why there can be no cache of these pictures; empty: there can. Asks a folder for all its files' times.
  static std::string obstacle(const Datastore& store);

  /// The file of these pictures in `folder`, made (empty, its room reserved) if need be. It belongs to a listing with sizes and modification
  /// times: after a change of those it is made anew. While it is open the file is marked as in use (mark_in_use). Null, with the reason, when nobody can tell whether the
  /// pictures changed (Datastore::content_hash), when there is none of these pictures and it would take more than `most_bytes`, or with CacheUse::read.
  /// Throws io when the folder cannot be written or the disk is too full.
  struct Opened {
    std::shared_ptr<const PictureCache> cache = nullptr;
    std::string reason = {};   ///< why there is none
    bool stale = false;        ///< the one there is of other files; with CacheUse::read
  };
  static Opened open(const std::filesystem::path& folder, const Datastore& store, const PictureFormat& format, CacheUse use, int64_t most_bytes);

  ~PictureCache();
  PictureCache(const PictureCache&) = delete;
  PictureCache& operator=(const PictureCache&) = delete;

  /// Whether the picture is there, then in `destination`; else that holds anything. `index` is the datastore's.
  bool read(int64_t index, std::span<uint8_t> destination) const;
  /// Nothing happens where the file may only be read, and once a disk did not take a picture. The disk's failure is not the reader's, who has the picture.
  void write(int64_t index, std::span<const uint8_t> picture) const;
  /// What the disk said when it did not take a picture; empty: it took all.
  std::string failure() const;
  const std::filesystem::path& path() const { return path_; }

 private:
  struct File;
  explicit PictureCache(File file);
  int64_t place_of(int64_t index) const;
  uint64_t checksum(int64_t index, std::span<const uint8_t> picture) const;

  std::filesystem::path path_;
  Descriptor descriptor_;
  std::unique_ptr<const MappedFile> mapped_;
  mutable std::atomic<bool> writable_;
  mutable std::atomic<int> failure_ = 0;  ///< errno
  uint64_t seed_;  ///< of the checksums
  int64_t picture_bytes_;
  /// Records whose checksum this process has seen fit, or written: it is not computed again at each read.
  std::unique_ptr<std::atomic<bool>[]> checked_;
};

}  // namespace lockstep::data
