// The kinds of stores that stores.cpp lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <sys/stat.h>

#include "lockstep/io/byte_store.h"

namespace lockstep::io {

std::shared_ptr<const ByteStore> open_folder(const std::string& where, const StoreOptions& options);
std::unique_ptr<ByteSink> open_folder_sink(const std::string& where);

std::shared_ptr<const ByteStore> open_archive(const std::string& where, const StoreOptions& options);
std::unique_ptr<ByteSink> open_archive_sink(const std::string& where);

std::shared_ptr<const ByteStore> open_cloud(const std::string& where, const StoreOptions& options);
std::unique_ptr<ByteSink> open_cloud_sink(const std::string& where);

/// "plants.tar/a/b" in two: the archive's file, and the folder in it. The first is empty when no file on the
/// way is named as an archive.
struct ArchivePlace {
  std::string file;
  std::string inside;
};
ArchivePlace archive_place(const std::string& where);

/// Whether a name ends as archives do: .tar, .tar.gz, .tgz, ...
bool is_archive_name(std::string_view name);

/// A path's parts without empty ones and dots: "./a//b" is {"a", "b"}. Throws corrupt_data, naming `holder`,
/// for one that leads upwards.
std::vector<std::string> safe_parts(std::string_view path, const std::string& holder);

/// Listed::changed: the time that the system notes at each change (ctime), which no program can set back as
/// it can mtime. Who unpacks or synchronises files gives other bytes an old mtime.
int64_t time_of_change(const struct stat& status);

/// The most parts of a path below the root of a folder or an archive.
constexpr size_t kMostDepth = 64;

}  // namespace lockstep::io
