#include "lockstep/train/picture_caches.h"

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/base/user_folders.h"
#include "lockstep/data/cache_folder.h"
#include "lockstep/device/inventory.h"
#include "lockstep/io/address.h"
#include "lockstep/io/byte_store.h"
#include "lockstep/train/prepare.h"

namespace lockstep::train {
namespace {

// Names that begin with a dot are not there for those who read pictures.
constexpr const char* kFolderName = ".lockstep-cache";

std::filesystem::path users_place() {
  const std::filesystem::path caches = user_cache_folder();
  return caches.empty() ? caches : caches / "lockstep" / "pictures";
}

// Where `lockstep cache` makes them: beside pictures that lie in a folder; those of an archive or a store among the user's own caches. Empty: nowhere.
std::filesystem::path usual_place(const std::string& source) {
  if (std::filesystem::is_directory(source)) return std::filesystem::path(source) / kFolderName;
  return io::is_address(source) || io::names_archive(source) ? users_place() : std::filesystem::path();
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
  if (place == users_place()) std::filesystem::permissions(place, std::filesystem::perms::owner_all);
  CacheReport report{.file = cache->path(), .format = format, .pictures = dataset.size(), .bytes = data::PictureCache::bytes_for(dataset.store(), format)};
  report.bad = data::without_bad_samples(dataset, format, device::inspect().cores, cache).second;
  if (const std::string failure = cache->failure(); !failure.empty()) throw Error(ErrorCode::io, failure, "make room there, or name another folder: --cache FOLDER");
  if (!report.bad.empty() && options.on_bad_sample == data::OnBadSample::fail) throw data::BadPicture(report.bad.front().source, report.bad.front().reason);
  return report;
}

}  // namespace

data::PictureCache::Opened open_cache(const data::Dataset& dataset, const std::string& folder, const data::PictureFormat& format, const Options& options, data::CacheUse use) {
  if (dataset.empty() || options.cache == "off") return {};
  const data::Datastore& store = data::root_of(dataset).store();
  if (options.cache != "auto") return data::PictureCache::open(options.cache, store, format, use, most_bytes(options));
  data::PictureCache::Opened found;
  for (const std::filesystem::path& place : {usual_place(folder), users_place()}) {
    if (place.empty() || !std::filesystem::is_directory(place)) continue;
    auto opened = data::PictureCache::open(place, store, format, data::CacheUse::read, most_bytes(options));
    if (opened.cache != nullptr) return opened;
    if (opened.stale) found = {.reason = opened.reason + "; lockstep cache makes one", .stale = true};
  }
  return found;
}

AutomaticCache make_automatic_cache(const data::Dataset& dataset, const data::PictureFormat& format, const Options& options, data::CacheUse use) {
  const data::Datastore& store = data::root_of(dataset).store();
  const std::filesystem::path place = users_place();
  if (place.empty()) return {.reason = "there is neither XDG_CACHE_HOME nor HOME to make one in"};
  if (std::string reason = data::unfit_for_caches(place); !reason.empty()) return {.reason = std::move(reason)};
  if (std::string reason = data::PictureCache::obstacle(store); !reason.empty()) return {.reason = std::move(reason)};
  const int64_t bytes = data::PictureCache::bytes_for(store, format);
  if (bytes > most_bytes(options)) return {.reason = "it would take " + as_bytes(bytes) + ", more than the " + as_bytes(most_bytes(options)) + " allowed (--cache-size)"};
  const std::string room = as_bytes(bytes) + ", of " + as_bytes(most_bytes(options)) + " for all that runs make by themselves (--cache-size)";
  if (use == data::CacheUse::read) return {.wanted = true, .reason = "training makes one in " + place.string() + ": " + room};
  try {
    const data::CacheFolder caches(place);
    auto opened = data::PictureCache::open(place, store, format, data::CacheUse::read, most_bytes(options));  // by another rank, meanwhile
    if (opened.cache == nullptr) {
      if (std::string refusal = caches.make_room(bytes, most_bytes(options)); !refusal.empty()) return {.reason = std::move(refusal)};
      opened = data::PictureCache::open(place, store, format, data::CacheUse::make, most_bytes(options));
    }
    if (opened.cache == nullptr) return {.reason = opened.reason};
    return {.cache = std::move(opened.cache), .reason = "for later epochs and runs; " + room};
  } catch (const Error& error) {
    return {.reason = error.message()};
  }
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
