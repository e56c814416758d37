// Decoded images in a file, so that they are decoded once for all runs, processes and trials that want them
// in one format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "lockstep/data/datastore.h"
#include "lockstep/data/record_file.h"
#include "lockstep/data/transform.h"

namespace lockstep::data {

/// Whether a cache that is not there, or not of these images any more, is made.
enum class CacheUse { read, make };

/// The bits that decide how an image of some file looks, into a hash.
uint64_t hash_of_format(const ImageFormat& format, uint64_t seed);

/// What the file of these images is of, and its name. Asks a folder for all its files' times.
RecordsKey image_cache_key(const Datastore& store, const ImageFormat& format);
std::string image_cache_name(const RecordsKey& key);

/// What a cache of these images takes on the disk.
int64_t image_cache_bytes(const Datastore& store, const ImageFormat& format);

/// Why there can be no cache of these images; empty: there can. Asks a folder for all its files' times.
std::string image_cache_obstacle(const Datastore& store);

struct OpenedCache {
  std::shared_ptr<const RecordFile> cache = nullptr;  ///< a record for each image, its pixels
  std::string reason = {};                            ///< why there is none
  bool stale = false;  ///< the one there is of other files; with CacheUse::read
};

/// The file of these images in `folder`, made (empty, its room reserved) if need be. It belongs to a
/// listing with sizes and times of change: after a change of those it is made anew. None, with the reason,
/// when nobody can tell whether the images changed (Datastore::content_hash), when there is none of these
/// images and it would take more than `most_bytes`, or with CacheUse::read. Throws io when the folder
/// cannot be written or the disk is too full.
OpenedCache open_image_cache(const std::filesystem::path& folder, const Datastore& store,
                             const ImageFormat& format, CacheUse use, int64_t most_bytes);

}  // namespace lockstep::data
