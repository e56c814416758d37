#include "lockstep/train/picture_caches.h"

#include <cstdlib>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/device/inventory.h"
#include "lockstep/io/address.h"
#include "lockstep/io/byte_store.h"
#include "lockstep/train/prepare.h"

namespace lockstep::train {
namespace {

// Names that begin with a dot are not there for those who read pictures.
constexpr const char* kFolderName = ".lockstep-cache";

// Beside pictures that lie in a folder; for those of an archive or a store among the user's own caches. Empty: nowhere.
std::filesystem::path usual_place(const std::string& source) {
  if (std::filesystem::is_directory(source)) return std::filesystem::path(source) / kFolderName;
  if (!io::is_address(source) && !io::names_archive(source)) return {};
  for (const auto& [variable, below] : {std::pair{"XDG_CACHE_HOME", ""}, std::pair{"HOME", ".cache"}}) {
    const char* folder = std::getenv(variable);
    // What is not absolute counts as not set, says the XDG specification.
    if (folder != nullptr && *folder == '/') return std::filesystem::path(folder) / below / "lockstep" / "pictures";
  }
  return {};
}

std::filesystem::path place_of(const std::string& source, const Options& options) { return options.cache == "auto" ? usual_place(source) : std::filesystem::path(options.cache); }

int64_t most_bytes(const Options& options) { return static_cast<int64_t>(options.cache_size * (1 << 30)); }

CacheReport make_cache(const data::Dataset& dataset, const std::string& folder, const data::PictureFormat& format, const Options& options) {
  const std::filesystem::path place = place_of(folder, options);
  if (place.empty()) {
    throw Error(ErrorCode::invalid_option, "a cache lies in the folder of its images, and \"" + folder + "\" is none", "name a folder for it: --cache FOLDER, here and for train");
  }
  const auto opened = data::PictureCache::open(place, dataset.store(), format, data::CacheUse::make, most_bytes(options));
  const auto& cache = opened.cache;
  if (cache == nullptr) throw Error(ErrorCode::invalid_option, "there can be no cache of \"" + folder + "\": " + opened.reason, "--cache-size is how many gigabytes it may take");
  // What a store gives only to those with a key is not for the machine's other users.
  if (options.cache == "auto" && !std::filesystem::is_directory(folder)) std::filesystem::permissions(place, std::filesystem::perms::owner_all);
  CacheReport report{.file = cache->path(), .format = format, .pictures = dataset.size(), .bytes = data::PictureCache::bytes_for(dataset.store(), format)};
  report.bad = data::without_bad_samples(dataset, format, device::inspect().cores, cache).second;
  if (!report.bad.empty() && options.on_bad_sample == data::OnBadSample::fail) throw data::BadPicture(report.bad.front().source, report.bad.front().reason);
  return report;
}

}  // namespace

data::PictureCache::Opened open_cache(const data::Dataset& dataset, const std::string& folder, const data::PictureFormat& format, const Options& options, data::CacheUse use) {
  if (dataset.empty() || options.cache == "off") return {};
  const bool automatic = options.cache == "auto";
  const std::filesystem::path place = place_of(folder, options);
  // Without the folder there is nothing to look at every file for.
  if (automatic && !std::filesystem::is_directory(place)) return {};
  auto opened = data::PictureCache::open(place, data::root_of(dataset).store(), format, automatic ? data::CacheUse::read : use, most_bytes(options));
  if (automatic && opened.can_be_made) opened.reason += "; lockstep cache makes one";
  return opened;
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
