// Well-known datasets, from where they are published. Works without LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/download/download.h"

namespace lockstep::data {

struct PublishedDataFile {
  const char* name;
  const char* sha256;  ///< all 64 digits
  int64_t bytes;
};

struct PublishedData {
  const char* name;         ///< "mnist"
  const char* description;  ///< "60,000 and 10,000 grey images of 28x28 pixels, 10 digits"
  const char* address;      ///< of the folder of its files
  std::vector<PublishedDataFile> files;
  const char* archived_folder;  ///< the folder inside its only file, an archive, that has the data; empty:
                                ///< the files themselves are the data
  std::vector<const char*> data_files;  ///< what a complete folder has, the test images last

  /// Its folder in $LOCKSTEP_CACHE/data. Throws invalid_option if the user has no folder for caches.
  std::filesystem::path cache_folder() const;
  /// The file of test images in a folder with the data; the others are the training images.
  std::filesystem::path test_file(const std::filesystem::path& folder) const;
  int64_t download_bytes() const;
};

const std::vector<PublishedData>& published_data();

/// Throws invalid_option naming the known ones.
const PublishedData& find_published_data(std::string_view name);

/// What is asked of a download besides the name.
struct PublishedDataOptions {
  std::filesystem::path folder = {};  ///< where it is kept; empty: cache_folder()
  std::string mirror = {};            ///< address of a folder with copies; empty: where it is published
  download::Options download = {};
};

/// Makes sure that the folder has the data, and returns it. Files are compared with their hashes; an archive
/// is unpacked and removed, and its files are recognised by name. Throws what download::fetch throws.
std::filesystem::path get_published_data(const PublishedData& data, const PublishedDataOptions& options = {});

}  // namespace lockstep::data
