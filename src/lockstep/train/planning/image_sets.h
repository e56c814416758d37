// Opens the images of a run as sets of decoded images: in memory, in a cache on disk, or decoded at each use.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/image_cache.h"
#include "lockstep/data/image_set.h"
#include "lockstep/data/image_share.h"
#include "lockstep/train/cache/image_caches.h"
#include "lockstep/train/options/plan.h"
#include "lockstep/train/planning/open_data.h"

namespace lockstep::train {

/// The caches of decoded images of a run's datasets.
struct ImageCaches {
  data::OpenedCache train;
  data::OpenedCache validation;
  data::OpenedCache test;
};

/// The paths of a run's datasets; empty: the caller gave the samples, or there are none.
struct DataPaths {
  std::string train;
  std::string validation;
  std::string test;
};

/// The caches that exist or that the choice names, by open_cache (image_caches.h).
///   data  the datasets' format
ImageCaches open_caches(const Datasets& sets, const DataPaths& paths, const DataPlan& data,
                        const CacheChoice& choice, data::CacheUse use);

struct ImageSetOptions {
  std::shared_ptr<data::ImageShare> share = {};  ///< shared with other runs; null: this run's own
  int64_t most_bytes = 0;                        ///< memory for decoded images
  CacheChoice cache = {};
  data::CacheUse use = data::CacheUse::make;
};

struct ImageSets {
  std::shared_ptr<const data::ImageSet> train;
  std::shared_ptr<const data::ImageSet> validation;  ///< null: none
  std::shared_ptr<const data::ImageSet> test;        ///< null: none
  bool cached = false;                               ///< MachinePlan::cached_images
  std::vector<std::string> notes;                    ///< for the user
};

/// Opens the datasets. Where a run of several epochs would decode its images in each, --cache auto makes a
/// cache, which is then in `caches`, or the reason why there is none. Images are not kept in memory where the
/// plan keeps features.
ImageSets open_image_sets(const Datasets& sets, const Plan& plan, ImageCaches& caches,
                          const ImageSetOptions& options);

}  // namespace lockstep::train
