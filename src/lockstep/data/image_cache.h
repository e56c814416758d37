// Decoded images in a file, so that all runs, processes and trials that use them in one format decode them
// only once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "lockstep/data/datastore.h"
#include "lockstep/data/record_file.h"
#include "lockstep/data/transform.h"

namespace lockstep::data {

/// Whether to create a cache that does not exist or no longer matches the images.
enum class CacheUse { read, make };

/// Adds everything that decides the decoded image of a file to a hash.
uint64_t hash_of_format(const ImageFormat& format, uint64_t seed);

/// The key and name of the cache file for these images. Requests the times of all files of a folder.
RecordsKey image_cache_key(const Datastore& store, const ImageFormat& format);
std::string image_cache_name(const RecordsKey& key);

/// Disk space for a cache of these images, in bytes.
int64_t image_cache_bytes(const Datastore& store, const ImageFormat& format);

/// Why these images cannot be cached; empty: they can. Requests the times of all files of a folder.
std::string image_cache_obstacle(const Datastore& store);

struct OpenedCache {
  std::shared_ptr<const RecordFile> cache = nullptr;  ///< one record per image: its pixels
  std::string reason = {};                            ///< why there is none
  bool stale = false;  ///< with CacheUse::read: the existing cache is of other files
};

/// The cache file of these images in `folder`, created if necessary (empty, with its space reserved). It
/// belongs to a listing with sizes and change times, and is created again after these change. None, with the
/// reason, if changes of the images cannot be detected (Datastore::content_hash), if no cache exists and a
/// new one would take more than `most_bytes`, or, with CacheUse::read, if none exists. Throws io if the
/// folder cannot be written or the disk is too full.
OpenedCache open_image_cache(const std::filesystem::path& folder, const Datastore& store,
                             const ImageFormat& format, CacheUse use, int64_t most_bytes);

}  // namespace lockstep::data
