// Caches of decoded images on the disk (--cache): where runs look for them, and how they are made.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/cache_folder.h"
#include "lockstep/data/image_cache.h"
#include "lockstep/data/image_set.h"

namespace lockstep::train {

/// --cache and --cache-size.
struct CacheChoice {
  std::string place = "auto";  ///< a folder, "auto" or "off"
  double gigabytes = 20;       ///< maximum size, in units of 2^30 bytes

  int64_t bytes() const;
};

/// The cache of the datastore from which `dataset` is chosen, by `choice`. `folder` is where the images are
/// (a folder, an archive or an address), empty if not known. --cache auto uses a cache that `lockstep cache`
/// made in the folder itself, or that it or a run made in $XDG_CACHE_HOME/lockstep/images (~/.cache). This
/// function makes no cache for --cache auto, and none with CacheUse::read. Throws invalid_option for a named
/// place among the images of the folder.
data::OpenedCache open_cache(const data::Dataset& dataset, const std::string& folder,
                             const data::ImageFormat& format, const CacheChoice& choice, data::CacheUse use);

/// The cache that a run makes automatically: with --cache auto, if images would otherwise be decoded again in
/// every epoch.
struct AutomaticCache {
  std::shared_ptr<const data::RecordFile> cache = nullptr;
  bool wanted = false;      ///< with CacheUse::read: training would make it
  std::string reason = {};  ///< where it is, or would be, and its size; or why there is none
};

/// Makes it in $XDG_CACHE_HOME/lockstep/images, where data::CacheFolder finds space within --cache-size. If
/// it cannot be made, that is a reason and no error.
AutomaticCache make_automatic_cache(const data::Dataset& dataset, const data::ImageFormat& format,
                                    const CacheChoice& choice, data::CacheUse use);

/// The reason why a run cannot automatically make a file of `bytes` bytes for these images, or for their
/// features; empty if it can, as far as is known before.
std::string automatic_obstacle(const data::Datastore& store, int64_t bytes, const CacheChoice& choice);

/// Opens or makes such a file. If it cannot be made, that is a refusal and no error.
data::CacheFolder::Found open_automatic_file(const std::string& name, const data::RecordsKey& key,
                                             const CacheChoice& choice);

/// The size and the maximum size of all such files, in words.
std::string automatic_room(int64_t bytes, const CacheChoice& choice);

/// The result of `lockstep cache` for one folder, archive or store.
struct CacheReport {
  std::filesystem::path file;
  data::ImageFormat format;
  int64_t images = 0;
  int64_t bytes = 0;  ///< of the file
  std::vector<data::BadSample> bad = {};
};

/// Decodes the images of `dataset`, which are in `folder`, on all cores into the cache that runs with this
/// choice then use. Images that are already there are only checked. Throws invalid_option for data that are
/// not cached, for a place among the images and if --cache-size is too small; io; and with OnBadSample::fail
/// corrupt_data for a bad image.
CacheReport make_cache(const data::Dataset& dataset, const std::string& folder,
                       const data::ImageFormat& format, const CacheChoice& choice,
                       data::OnBadSample on_bad_sample);

}  // namespace lockstep::train
