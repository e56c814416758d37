// The kinds of stores, in the order in which they are tried. To add one, write a file like folder_store.cpp
// and add a line here.
#include <algorithm>
#include <array>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/io/address.h"
#include "lockstep/io/internal/stores.h"

namespace lockstep::io {
namespace {

struct StoreKind {
  bool (*fits)(const std::string& where);
  bool (*fits_sink)(const std::string& where);
  std::shared_ptr<const ByteStore> (*open)(const std::string& where, const StoreOptions& options);
  std::unique_ptr<ByteSink> (*open_sink)(const std::string& where);
};

bool fits_cloud(const std::string& where) { return is_address(where); }
bool fits_archive_sink(const std::string& where) { return is_archive_name(where); }
bool fits_folder(const std::string&) { return true; }

constexpr std::array<StoreKind, 3> kKinds{{
    {fits_cloud, fits_cloud, open_cloud, open_cloud_sink},
    {names_archive, fits_archive_sink, open_archive, open_archive_sink},
    {fits_folder, fits_folder, open_folder, open_folder_sink},
}};

// Otherwise a copy to photos.zip would create a folder of that name.
void refuse_other_archives(const std::string& where) {
  const std::string name = lower(where);
  const bool other = name.ends_with(".zip") || name.ends_with(".7z") || name.ends_with(".rar");
  if (!other || is_address(where) || std::filesystem::is_directory(where)) return;
  throw Error(ErrorCode::invalid_option,
              "cannot read or write \"" + where + "\": archives of this kind are not supported",
              "use a folder, or an archive that ends in .tar or .tar.gz");
}

}  // namespace

std::shared_ptr<const ByteStore> open_store(const std::string& where, const StoreOptions& options) {
  refuse_secrets(where);
  refuse_other_archives(where);
  for (const StoreKind& kind : kKinds) {
    if (kind.fits(where)) return kind.open(where, options);
  }
  throw Error(ErrorCode::internal, "no kind of store fits");
}

std::unique_ptr<ByteSink> open_sink(const std::string& where) {
  refuse_secrets(where);
  refuse_other_archives(where);
  for (const StoreKind& kind : kKinds) {
    if (kind.fits_sink(where)) return kind.open_sink(where);
  }
  throw Error(ErrorCode::internal, "no kind of store fits");
}

std::pair<std::string, std::string> folder_and_name(const std::string& where) {
  const std::string_view scheme = scheme_of(where);
  const size_t place = scheme.empty() ? 0 : scheme.size() + std::string_view("://").size();
  const size_t end = scheme.empty() ? where.size() : std::min(where.find('?'), where.size());
  const size_t slash = where.substr(0, end).rfind('/');
  if (slash == std::string::npos || slash < place)
    return scheme.empty() ? std::pair(std::string(), where) : std::pair(where, std::string());
  return {where.substr(0, slash + 1) + where.substr(end), where.substr(slash + 1, end - slash - 1)};
}

std::vector<std::string> safe_parts(std::string_view path, const std::string& holder) {
  std::vector<std::string> parts;
  for (std::string& part : split(path, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == "..")
      throw Error(ErrorCode::corrupt_data,
                  "\"" + holder + "\" contains the name \"" + std::string(path) + "\", which leads out of it",
                  "create it again with names that stay inside it");
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace lockstep::io
