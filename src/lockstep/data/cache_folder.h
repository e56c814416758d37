// Room in a folder of caches that runs make by themselves and nobody looks after.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "lockstep/base/descriptor.h"
#include "lockstep/data/record_file.h"

namespace lockstep::data {

/// Marks an open cache file as in use and as the one used last; until the descriptor is closed it is not
/// removed for others.
void mark_in_use(int descriptor);

/// What keeps a folder's file system from being one for automatic caches, in words; empty: nothing. Decoded
/// images are several times their files, so a network's may be slower to read them from than decoding is.
/// The folder need not be there yet.
std::string unfit_for_caches(const std::filesystem::path& folder);

/// A folder of such caches, for one process at a time. Another that wants it waits.
class CacheFolder {
 public:
  /// The folder is made, for nobody but its user, if need be. Throws io where it cannot be made or written.
  explicit CacheFolder(std::filesystem::path path);

  /// The file of this name and key, made in such room if need be; none, with the reason. Throws io where the
  /// disk is full after all.
  struct Found {
    std::shared_ptr<const RecordFile> file = nullptr;
    std::string refusal = {};
  };
  Found find_or_make(const std::string& name, const RecordsKey& key, int64_t most_bytes) const;

  /// Room for a cache of `bytes` more; empty, or why there is none. All caches there (*.images, *.features)
  /// are to take no more than `most_bytes`, and no more than a quarter of what the disk would have free
  /// without them: those used least recently are removed, except those that any process has open (which could
  /// go on reading them; their room would not be free). What makers that were killed left goes too. Nothing
  /// is removed where it would not be enough.
  std::string make_room(int64_t bytes, int64_t most_bytes) const;

 private:
  std::filesystem::path path_;
  Descriptor lock_;
};

}  // namespace lockstep::data
