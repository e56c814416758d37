#include "lockstep/data/image_cache.h"

#include <array>
#include <utility>

#include "lockstep/base/hash.h"
#include "lockstep/base/text.h"
#include "lockstep/device/jpeg_decoder.h"

namespace lockstep::data {
namespace {

// Increase this version when decoding or resizing gives different levels.
constexpr uint64_t kLevelsVersion = 2;

constexpr const char* kNobodyCanTell = "changes of these images cannot be detected";

// All of RecordsKey except content, which requires the times of all files of a folder.
RecordsKey key_for(const Datastore& store, const ImageFormat& format) {
  return {.identity = hash_of_format(format, hash_of(store.identity())),
          .count = store.size(),
          .record_bytes = format.size().bytes()};
}

std::string never_cached(const Datastore& store) {
  if (store.kind() != SampleKind::image) return "sequences are not cached in files";
  if (store.in_memory()) return "the decoded images are already in memory";
  return store.identity().empty() ? kNobodyCanTell : "";
}

}  // namespace

uint64_t hash_of_format(const ImageFormat& format, uint64_t seed) {
  const std::array<int64_t, 5> numbers{format.channels, format.height, format.width,
                                       static_cast<int64_t>(format.resize),
                                       static_cast<int64_t>(format.decode)};
  const uint64_t by = seed + kLevelsVersion;
  return hash_of(std::as_bytes(std::span(numbers)),
                 format.jpeg_decoder == nullptr ? by : hash_of(format.jpeg_decoder->fingerprint(), by));
}

RecordsKey image_cache_key(const Datastore& store, const ImageFormat& format) {
  RecordsKey key = key_for(store, format);
  key.content = store.content_hash();
  return key;
}

std::string image_cache_name(const RecordsKey& key) { return as_hex(key.identity) + ".images"; }

int64_t image_cache_bytes(const Datastore& store, const ImageFormat& format) {
  return key_for(store, format).file_bytes();
}

std::string image_cache_obstacle(const Datastore& store) {
  std::string reason = never_cached(store);
  return reason.empty() && store.content_hash() == 0 ? kNobodyCanTell : reason;
}

OpenedCache open_image_cache(const std::filesystem::path& folder, const Datastore& store,
                             const ImageFormat& format, CacheUse use, int64_t most_bytes) {
  if (std::string reason = never_cached(store); !reason.empty()) return {nullptr, std::move(reason)};
  RecordsKey key = key_for(store, format);
  const std::filesystem::path path = folder / image_cache_name(key);
  std::error_code unseen;
  const bool there = std::filesystem::exists(path, unseen);
  if (there || use == CacheUse::make) {
    key.content = store.content_hash();
    if (key.content == 0) return {nullptr, kNobodyCanTell};
  }
  if (there) {
    if (auto cache = RecordFile::find(path, key)) return {std::move(cache)};
  }
  if (key.file_bytes() > most_bytes)
    return {nullptr, "it would take " + as_bytes(key.file_bytes()) + ", more than the limit of " +
                         as_bytes(most_bytes)};
  if (use == CacheUse::read)
    return {nullptr, there ? "the existing one is of other files" : "none exists", there};
  return {RecordFile::find_or_make(path, key)};
}

}  // namespace lockstep::data
