// Images in a store with their classes: what folders of classes and tables of images have in common.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lockstep/data/internal/files.h"
#include "lockstep/data/sources.h"

namespace lockstep::data {

/// The offset of an image's path in ImageListing::paths, its size in bytes if it is known, and its class.
struct ImageEntry {
  uint64_t offset = 0;
  int64_t bytes = -1;
  uint32_t length = 0;
  int32_t label = 0;
};

/// Images and their classes, while they are found. Paths are relative to the store's root.
struct ImageListing {
  std::string paths{};  ///< of Files
  std::vector<ImageEntry> entries{};
  std::vector<std::string> classes{};
  std::unordered_map<std::string, int32_t> class_places{};
  /// Sum over all images of a hash of size and change time, because stores have no order.
  uint64_t contents = 0;
  bool contents_known = true;  ///< whether the store tells the change times of all

  std::string_view path(const ImageEntry& entry) const {
    return std::string_view(paths).substr(entry.offset, entry.length);
  }
  /// The index of a class, which is added if it is new.
  int32_t place_of(const std::string& class_name);
  void add(const Files& files, const Files::Name& image, int32_t class_place);
};

/// Labels become indices in the order of the names (or of options.classes), and images are sorted by label
/// and path. root: for messages. Throws as match_classes does.
void put_in_order(const std::string& root, ImageListing& listing, const SourceOptions& options);

/// The dataset of a listing in this order. opened_from: what the user named, a path or an address.
Dataset images_in(std::shared_ptr<const io::ByteStore> store, ImageListing listing,
                  const SourceOptions& options, const std::string& opened_from);

}  // namespace lockstep::data
