#include "lockstep/train/cache/image_caches.h"

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/base/user_folders.h"
#include "lockstep/data/cache_folder.h"
#include "lockstep/data/listed_below.h"
#include "lockstep/device/failure.h"
#include "lockstep/device/inventory.h"
#include "lockstep/io/address.h"
#include "lockstep/io/byte_store.h"

namespace lockstep::train {
namespace {

std::filesystem::path users_place() {
  const std::filesystem::path caches = lockstep_cache_folder();
  return caches.empty() ? caches : caches / "images";
}

// The folder in which `lockstep cache` makes them: beside images that are in a folder, and among the user's
// caches for an archive or a store. Empty: none.
std::filesystem::path usual_place(const std::string& source) {
  if (std::filesystem::is_directory(source)) return std::filesystem::path(source) / kDecodedFolder;
  return io::is_address(source) || io::names_archive(source) ? users_place() : std::filesystem::path();
}

std::filesystem::path place_of(const std::string& source, const CacheChoice& choice) {
  return choice.place == "auto" ? usual_place(source) : std::filesystem::path(choice.place);
}

void check_place(const std::filesystem::path& place, const std::string& source) {
  if (!data::is_listed_below(place / "1.images", source)) return;
  throw Error(ErrorCode::invalid_option,
              "a cache in \"" + place.string() + "\" would lie among the images of \"" + source + "\"",
              "name a folder outside of the data, or leave out --cache");
}

}  // namespace

CacheReport make_cache(const data::Dataset& dataset, const std::string& folder,
                       const data::ImageFormat& format, const CacheChoice& choice,
                       data::OnBadSample on_bad_sample) {
  const std::filesystem::path place = place_of(folder, choice);
  if (place.empty()) {
    throw Error(ErrorCode::invalid_option,
                "a cache lies in the folder of its images, and \"" + folder + "\" is none",
                "name a folder for it: --cache FOLDER, here and for train");
  }
  check_place(place, folder);
  const auto opened =
      data::open_image_cache(place, dataset.store(), format, data::CacheUse::make, choice.bytes());
  const auto& cache = opened.cache;
  if (cache == nullptr)
    throw Error(ErrorCode::invalid_option, "there can be no cache of \"" + folder + "\": " + opened.reason,
                "--cache-size is how many gigabytes it may take");
  // Other users of the machine must not see images for which a store needs a key.
  if (place == users_place()) std::filesystem::permissions(place, std::filesystem::perms::owner_all);
  CacheReport report{.file = cache->path(),
                     .format = format,
                     .images = dataset.size(),
                     .bytes = data::image_cache_bytes(dataset.store(), format)};
  report.bad = data::without_bad_samples(dataset, format, device::inspect().cores, cache).second;
  if (const std::string failure = cache->failure(); !failure.empty())
    throw Error(ErrorCode::io, failure, "make room there, or name another folder: --cache FOLDER");
  if (!report.bad.empty() && on_bad_sample == data::OnBadSample::fail)
    throw data::BadImage(report.bad.front().source, report.bad.front().reason);
  return report;
}

int64_t CacheChoice::bytes() const {
  constexpr int64_t kMost = int64_t{1} << 62;
  return gigabytes < static_cast<double>(kMost >> 30) ? static_cast<int64_t>(gigabytes * (1 << 30)) : kMost;
}

data::OpenedCache open_cache(const data::Dataset& dataset, const std::string& folder,
                             const data::ImageFormat& format, const CacheChoice& choice, data::CacheUse use) {
  if (dataset.empty() || choice.place == "off") return {};
  const data::Datastore& store = data::root_of(dataset).store();
  if (choice.place != "auto") {
    check_place(choice.place, folder);
    return data::open_image_cache(choice.place, store, format, use, choice.bytes());
  }
  data::OpenedCache found;
  for (const std::filesystem::path& place : {usual_place(folder), users_place()}) {
    // A folder that this user may not read, such as $HOME in many containers, does not count.
    if (std::error_code unseen; place.empty() || !std::filesystem::is_directory(place, unseen)) continue;
    auto opened = data::open_image_cache(place, store, format, data::CacheUse::read, choice.bytes());
    if (opened.cache != nullptr) return opened;
    if (opened.stale) found = {.reason = opened.reason + "; lockstep cache makes one", .stale = true};
  }
  return found;
}

std::string automatic_obstacle(const data::Datastore& store, int64_t bytes, const CacheChoice& choice) {
  const std::filesystem::path place = users_place();
  if (place.empty()) return "there is neither XDG_CACHE_HOME nor HOME to make one in";
  if (std::string reason = data::unfit_for_caches(place); !reason.empty()) return reason;
  if (bytes > choice.bytes())
    return "it would take " + as_bytes(bytes) + ", more than the " + as_bytes(choice.bytes()) +
           " allowed (--cache-size)";
  return data::image_cache_obstacle(store);
}

data::CacheFolder::Found open_automatic_file(const std::string& name, const data::RecordsKey& key,
                                             const CacheChoice& choice) {
  try {
    return data::CacheFolder(users_place()).find_or_make(name, key, choice.bytes());
  } catch (const std::exception&) {
    return {.refusal = device::error_of(std::current_exception()).message()};
  }
}

std::string automatic_room(int64_t bytes, const CacheChoice& choice) {
  return as_bytes(bytes) + ", of " + as_bytes(choice.bytes()) +
         " for all that runs keep by themselves (--cache-size)";
}

AutomaticCache make_automatic_cache(const data::Dataset& dataset, const data::ImageFormat& format,
                                    const CacheChoice& choice, data::CacheUse use) {
  const data::Datastore& store = data::root_of(dataset).store();
  const int64_t bytes = data::image_cache_bytes(store, format);
  if (std::string reason = automatic_obstacle(store, bytes, choice); !reason.empty())
    return {.reason = std::move(reason)};
  const std::string room = automatic_room(bytes, choice);
  if (use == data::CacheUse::read)
    return {.wanted = true, .reason = "training makes one in " + users_place().string() + ": " + room};
  const data::RecordsKey key = data::image_cache_key(store, format);
  auto found = open_automatic_file(data::image_cache_name(key), key, choice);
  if (found.file == nullptr) return {.reason = std::move(found.refusal)};
  return {.cache = std::move(found.file), .reason = "for later epochs and runs; " + room};
}

}  // namespace lockstep::train
