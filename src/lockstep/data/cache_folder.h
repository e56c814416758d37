// Manages the space of a folder of caches, which runs create automatically and nobody maintains.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "lockstep/base/descriptor.h"
#include "lockstep/data/record_file.h"

namespace lockstep::data {

/// Marks an open cache file as in use and as the most recently used one. It is not removed until the
/// descriptor is closed.
void mark_in_use(int descriptor);

/// Why a folder's file system is not suitable for automatic caches; empty: it is suitable. Decoded images are
/// several times larger than their files, so reading them over a network may be slower than decoding. The
/// folder need not exist.
std::string unfit_for_caches(const std::filesystem::path& folder);

/// A folder of caches, locked for one process at a time. Another process waits.
class CacheFolder {
 public:
  /// Creates the folder if necessary, readable only for its user. Throws io if it cannot be created or
  /// written.
  explicit CacheFolder(std::filesystem::path path);

  /// The file with this name and key, created if there is enough room; otherwise none, with the reason.
  /// Throws io if the disk is full.
  struct Found {
    std::shared_ptr<const RecordFile> file = nullptr;
    std::string refusal = {};
  };
  Found find_or_make(const std::string& name, const RecordsKey& key, int64_t most_bytes) const;

  /// Makes room for a cache of `bytes` more; empty, or the reason why that is impossible. All caches in the
  /// folder (*.images, *.features) together may take at most `most_bytes`, and at most a quarter of the space
  /// that the disk would have free without them. The least recently used ones are removed, except those that
  /// a process has open (it could continue to read them, so no space would be freed). Leftovers of killed
  /// processes are removed too. Nothing is removed if that would not free enough space.
  std::string make_room(int64_t bytes, int64_t most_bytes) const;

 private:
  std::filesystem::path path_;
  Descriptor lock_;
};

}  // namespace lockstep::data
