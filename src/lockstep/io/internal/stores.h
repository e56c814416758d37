// The kinds of stores that stores.cpp lists.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/io/byte_store.h"

namespace lockstep::io {

std::shared_ptr<const ByteStore> open_folder(const std::string& where, const StoreOptions& options);
std::unique_ptr<ByteSink> open_folder_sink(const std::string& where);

std::shared_ptr<const ByteStore> open_archive(const std::string& where, const StoreOptions& options);
std::unique_ptr<ByteSink> open_archive_sink(const std::string& where);

std::shared_ptr<const ByteStore> open_cloud(const std::string& where, const StoreOptions& options);
std::unique_ptr<ByteSink> open_cloud_sink(const std::string& where);

/// "plants.tar/a/b" in two: the archive's file, and the folder in it. The first is empty when no file on the way is named as an archive.
struct ArchivePlace {
  std::string file;
  std::string inside;
};
ArchivePlace archive_place(const std::string& where);

/// Whether a name ends as archives do: .tar, .tar.gz, .tgz, ...
bool is_archive_name(std::string_view name);

/// A path's parts without empty ones and dots: "./a//b" is {"a", "b"}. Throws corrupt_data, naming `holder`, for one that leads upwards.
std::vector<std::string> safe_parts(std::string_view path, const std::string& holder);

/// The most parts of a path below the root of a folder or an archive.
constexpr size_t kMostDepth = 64;

}  // namespace lockstep::io
