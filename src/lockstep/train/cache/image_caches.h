// Where runs look for decoded images on the disk (--cache), and how they get there.
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
  double gigabytes = 20;       ///< that it may take, 2^30 bytes each

  int64_t bytes() const;
};

/// The cache of the datastore that `dataset` is chosen from, as `choice` says; `folder` is
/// where the images are (a folder, an archive or an address), empty when nobody knows. --cache auto takes
/// what `lockstep cache` made in the folder itself, or what it or a run made in
/// $XDG_CACHE_HOME/lockstep/images (~/.cache), and makes nothing here; nor does CacheUse::read.
data::OpenedCache open_cache(const data::Dataset& dataset, const std::string& folder,
                             const data::ImageFormat& format, const CacheChoice& choice, data::CacheUse use);

/// What came of a cache that a run makes without being asked: with --cache auto, where images would be
/// decoded again in every epoch.
struct AutomaticCache {
  std::shared_ptr<const data::RecordFile> cache = nullptr;
  bool wanted = false;      ///< with CacheUse::read: training would make it
  std::string reason = {};  ///< where it is, or would be, and in what room; or why there is none
};

/// In $XDG_CACHE_HOME/lockstep/images, in the room that data::CacheFolder finds within --cache-size. What
/// keeps it from being made is a reason and no error.
AutomaticCache make_automatic_cache(const data::Dataset& dataset, const data::ImageFormat& format,
                                    const CacheChoice& choice, data::CacheUse use);

/// Why there can be no file of so many bytes of these images, or of what is made from them, among those
/// that runs make by themselves; empty: there can, as far as one can tell before.
std::string automatic_obstacle(const data::Datastore& store, int64_t bytes, const CacheChoice& choice);

/// Such a file. What keeps it from being made is a refusal and no error.
data::CacheFolder::Found open_automatic_file(const std::string& name, const data::RecordsKey& key,
                                             const CacheChoice& choice);

/// How many bytes, and of how many, in words.
std::string automatic_room(int64_t bytes, const CacheChoice& choice);

/// What `lockstep cache` made of one folder, archive or store.
struct CacheReport {
  std::filesystem::path file;
  data::ImageFormat format;
  int64_t images = 0;
  int64_t bytes = 0;  ///< of the file
  std::vector<data::BadSample> bad = {};
};

/// Decodes the images of `dataset`, which lie in `folder`, all cores at once, into the cache that runs with
/// this choice then use; what is there already is only checked. Throws invalid_option for data that are not
/// cached and for too small a --cache-size, io, and with OnBadSample::fail corrupt_data for a bad image.
CacheReport make_cache(const data::Dataset& dataset, const std::string& folder,
                       const data::ImageFormat& format, const CacheChoice& choice,
                       data::OnBadSample on_bad_sample);

}  // namespace lockstep::train
