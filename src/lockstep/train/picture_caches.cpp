#include "lockstep/train/picture_caches.h"

#include "lockstep/base/error.h"
#include "lockstep/device/inventory.h"
#include "lockstep/train/prepare.h"

namespace lockstep::train {
namespace {

// Names that begin with a dot are not there for those who read pictures.
constexpr const char* kFolderName = ".lockstep-cache";

int64_t most_bytes(const Options& options) { return static_cast<int64_t>(options.cache_size * (1 << 30)); }

CacheReport make_cache(const data::Dataset& dataset, const std::string& folder, const data::PictureFormat& format, const Options& options) {
  if (options.cache == "auto" && !std::filesystem::is_directory(folder)) {
    throw Error(ErrorCode::invalid_option, "a cache lies in the folder of its images, and \"" + folder + "\" is none", "name a folder for it: --cache FOLDER, here and for train");
  }
  const std::filesystem::path place = options.cache == "auto" ? std::filesystem::path(folder) / kFolderName : std::filesystem::path(options.cache);
  const auto [cache, reason] = data::PictureCache::open(place, dataset.store(), format, data::CacheUse::make, most_bytes(options));
  if (cache == nullptr) throw Error(ErrorCode::invalid_option, "there can be no cache of \"" + folder + "\": " + reason, "--cache-size is how many gigabytes it may take");
  CacheReport report{.file = cache->path(), .format = format, .pictures = dataset.size(), .bytes = data::PictureCache::bytes_for(dataset.store(), format)};
  report.bad = data::without_bad_samples(dataset, format, device::inspect().cores, cache).second;
  if (!report.bad.empty() && options.on_bad_sample == data::OnBadSample::fail) throw data::BadPicture(report.bad.front().source, report.bad.front().reason);
  return report;
}

}  // namespace

data::PictureCache::Opened open_cache(const data::Dataset& dataset, const std::string& folder, const data::PictureFormat& format, const Options& options, data::CacheUse use) {
  if (dataset.empty() || options.cache == "off") return {};
  const bool automatic = options.cache == "auto";
  if (automatic && folder.empty()) return {};
  const std::filesystem::path place = automatic ? std::filesystem::path(folder) / kFolderName : std::filesystem::path(options.cache);
  // Without the folder there is nothing to look at every file for.
  if (automatic && !std::filesystem::is_directory(place)) return {};
  return data::PictureCache::open(place, data::root_of(dataset).store(), format, automatic ? data::CacheUse::read : use, most_bytes(options));
}

std::vector<CacheReport> make_caches(const Job& job, const Options& options) {
  if (options.cache == "off") throw Error(ErrorCode::invalid_option, "--cache off leaves nothing to make", "leave it out, or name a folder");
  Options only_look = options;
  only_look.cache = "off";
  const Prepared prepared = prepare(job, only_look, /*dry=*/true);
  const data::PictureFormat& format = prepared.plan.format;
  std::vector<CacheReport> reports{make_cache(data::root_of(prepared.train->dataset()), job.folder.string(), prepared.train->format(), options)};
  if (!options.validation.empty()) reports.push_back(make_cache(data::root_of(prepared.validation->dataset()), options.validation, format, options));
  if (!options.test.empty()) reports.push_back(make_cache(data::root_of(prepared.test->dataset()), options.test, format, options));
  return reports;
}

}  // namespace lockstep::train
