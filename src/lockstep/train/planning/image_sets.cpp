#include "lockstep/train/planning/image_sets.h"

#include <utility>

#include "lockstep/train/planning/sample_format.h"

namespace lockstep::train {
namespace {

// One of the datasets that are read in every epoch or at every validation.
struct RepeatedSet {
  const data::Dataset& dataset;
  data::ImageFormat format;
  bool is_train = true;
};

class ImageSetOpener {
 public:
  ImageSetOpener(const Plan& plan, ImageCaches& caches, const ImageSetOptions& options)
      : plan_(plan),
        caches_(caches),
        options_(options),
        share_(options.share != nullptr ? options.share : std::make_shared<data::ImageShare>()) {}

  ImageSets open(const Datasets& sets) {
    const data::ImageFormat larger = training_format(plan_.data);
    if (sets.whole.empty()) {
      opened_.train = open_repeated({sets.train, larger, /*is_train=*/true});
      opened_.validation = open_repeated({sets.validation, plan_.data.format, /*is_train=*/false});
    } else {
      // Runs that split one dataset in different ways share its images.
      const auto whole = open_repeated({sets.whole, larger, /*is_train=*/true});
      opened_.train = std::make_shared<const data::ImageSet>(sets.train, whole);
      if (!queue_cut(plan_.data).empty()) {
        opened_.validation = open_repeated({sets.validation, plan_.data.format, /*is_train=*/false});
      } else if (!sets.validation.empty()) {
        opened_.validation = std::make_shared<const data::ImageSet>(sets.validation, whole);
      }
    }
    opened_.test = open_set(sets.test, plan_.data.format, caches_.test.cache);  // is read only once
    opened_.cached |= opened_.train->cache() != nullptr;
    return std::move(opened_);
  }

 private:
  std::shared_ptr<const data::ImageSet> open_repeated(const RepeatedSet& set) {
    if (set.dataset.empty()) return nullptr;
    data::OpenedCache& cache = set.is_train ? caches_.train : caches_.validation;
    if (needs_cache(set, cache)) make_cache(set, cache);
    return open_set(set.dataset, set.format, cache.cache);
  }

  std::shared_ptr<const data::ImageSet> open_set(const data::Dataset& dataset,
                                                 const data::ImageFormat& format,
                                                 const std::shared_ptr<const data::RecordFile>& cache) const {
    if (dataset.empty()) return nullptr;
    // To compute features, each image is read only once.
    const int64_t kept_bytes = plan_.network.keep_features ? 0 : options_.most_bytes;
    return share_->open(dataset, format, kept_bytes, cache);
  }

  // Only images that would be decoded again in each epoch are worth a cache.
  bool needs_cache(const RepeatedSet& set, const data::OpenedCache& cache) const {
    const bool once = plan_.length.total_steps <= plan_.length.steps_per_epoch;
    if (options_.cache.place != "auto" || plan_.data.format.kind == data::SampleKind::sequence ||
        plan_.network.keep_features || once)
      return false;
    return cache.cache == nullptr && !share_->keeps(set.dataset, set.format, options_.most_bytes);
  }

  void make_cache(const RepeatedSet& set, data::OpenedCache& cache) {
    AutomaticCache made = make_automatic_cache(set.dataset, set.format, options_.cache, options_.use);
    if (set.is_train) opened_.cached = made.wanted;
    const std::string whose = set.is_train ? "" : "held-out ";
    opened_.notes.push_back(
        made.cache != nullptr
            ? "decoded " + whose + "images are kept in \"" + made.cache->path().string() + "\" " + made.reason
            : "every " + std::string(set.is_train ? "epoch" : "validation") + " decodes all " + whose +
                  "images again, because there is no cache of them: " + made.reason);
    const std::string stale =
        cache.stale && made.cache == nullptr ? "the existing cache is of other files; " : "";
    cache = {.cache = std::move(made.cache), .reason = stale + made.reason};
  }

  const Plan& plan_;
  ImageCaches& caches_;
  const ImageSetOptions& options_;
  const std::shared_ptr<data::ImageShare> share_;
  ImageSets opened_;
};

}  // namespace

ImageCaches open_caches(const Datasets& sets, const DataPaths& paths, const DataPlan& data,
                        const CacheChoice& choice, data::CacheUse use) {
  return {.train = open_cache(sets.train, paths.train, training_format(data), choice, use),
          .validation = open_cache(sets.validation, paths.validation, data.format, choice, use),
          .test = open_cache(sets.test, paths.test, data.format, choice, use)};
}

ImageSets open_image_sets(const Datasets& sets, const Plan& plan, ImageCaches& caches,
                          const ImageSetOptions& options) {
  return ImageSetOpener(plan, caches, options).open(sets);
}

}  // namespace lockstep::train
