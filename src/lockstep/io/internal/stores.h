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

/// Splits "plants.tar/a/b" into the archive file and the folder in it. The first is empty if no part of the
/// path has the name of an archive.
struct ArchivePlace {
  std::string file;
  std::string inside;
};
ArchivePlace archive_place(const std::string& where);

/// Whether a name ends like an archive: .tar, .tar.gz, .tgz, ...
bool is_archive_name(std::string_view name);

/// The parts of a path without empty ones and dots: "./a//b" is {"a", "b"}. Throws corrupt_data, naming
/// `holder`, for a path that leads upwards.
std::vector<std::string> safe_parts(std::string_view path, const std::string& holder);

/// The value of Listed::changed: the time of the last change that the system records (ctime). Programs that
/// unpack or synchronize files can set mtime back, but not ctime.
int64_t time_of_change(const struct stat& status);

/// Maximum number of parts of a path below the root of a folder or an archive.
constexpr size_t kMostDepth = 64;

}  // namespace lockstep::io
