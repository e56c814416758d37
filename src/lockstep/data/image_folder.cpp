#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <unordered_map>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/data/decode.h"
#include "lockstep/data/internal/dataset_parts.h"
#include "lockstep/data/internal/formats.h"
#include "lockstep/data/internal/image_listing.h"
#include "lockstep/data/internal/kinds.h"
#include "lockstep/data/internal/other_data.h"
#include "lockstep/data/internal/strays.h"
#include "lockstep/io/address.h"

namespace lockstep::data {
namespace {

constexpr const char* kNoImageName = "it is not a PNG, JPEG, BMP, PPM, TIFF or WebP file";

// The result of sorting the files.
struct Listing {
  ImageListing images;
  std::vector<BadSample> strays;
  std::vector<BadSample> empty_folders;
  DatasetParts parts;
  size_t folders = 0;
  bool is_known_stray = false;  // one is of a format of images, by another name or not read
};

std::string_view parent_of(std::string_view path) {
  return path.substr(0, path.rfind('/') == std::string_view::npos ? 0 : path.rfind('/'));
}
std::string_view name_in(std::string_view path) {
  return path.substr(path.rfind('/') == std::string_view::npos ? 0 : path.rfind('/') + 1);
}

std::string name_of_root(const std::string& root) {
  if (io::is_address(root)) return std::string(name_in(root));
  const std::filesystem::path path = std::filesystem::absolute(root).lexically_normal();
  const std::string name = (path.has_filename() ? path : path.parent_path()).filename().string();
  return is_utf8(name) ? name : "";
}

// Sorts the files into images with their classes, strays and empty class folders. Some stores do not list
// folders, so folders are also derived from the files' paths.
class Sorting {
 public:
  Sorting(const Files& files, const SourceOptions& options)
      : files_(files), options_(options), root_name_(name_of_root(files.root())) {}

  Listing run() {
    folder_at("");
    for (const Files::Name& name : files_.names()) take(name);
    note_empty_folders();
    note_parts();
    listing_.folders = folders_.size();
    return std::move(listing_);
  }

 private:
  struct Folder {
    bool has_image = false;  // in this folder or below
    bool has_folder = false;
    int32_t place = -1;  // index of its class, once it has an image
  };

  Folder& folder_at(std::string_view path) {
    if (last_ != nullptr && path == last_path_) return *last_;
    const auto [at, is_new] = folders_.try_emplace(std::string(path));
    const std::string& key = at->first;
    Folder& folder = at->second;
    if (is_new && !path.empty()) folder_at(parent_of(path)).has_folder = true;
    last_path_ = key;
    last_ = &folder;
    return folder;
  }

  void take(const Files::Name& file) {
    const io::Listed listed = files_.listed(file);
    if (listed.kind == io::Listed::Kind::folder) {
      folder_at(listed.path);
      return;
    }
    const std::string_view name = name_in(listed.path);
    const std::string_view parent = parent_of(listed.path);
    Folder& folder = folder_at(parent);
    const bool is_file = listed.kind == io::Listed::Kind::file;
    const bool is_image = is_image_name(name);
    if (is_file && is_image && (!parent.empty() || options_.unlabelled)) {
      if (folder.place < 0) folder.place = listing_.images.place_of(std::string(label_of(parent)));
      folder.has_image = true;
      listing_.images.add(files_, file, folder.place);
    } else if (!parent.empty() || !is_note(name)) {
      add_stray(listed.path, !is_file   ? kNoFile
                             : is_image ? "it is outside the class folders"
                                        : kNoImageName);
    }
  }

  std::string_view label_of(std::string_view folder) const {
    if (folder.empty()) return root_name_;
    return options_.labels == Labels::top ? folder.substr(0, folder.find('/')) : name_in(folder);
  }

  void add_stray(std::string_view path, const char* why) {
    listing_.strays.push_back({files_.shown(path), why});
  }

  // By folder, a folder of folders is not a class; by first level, everything below counts.
  void note_empty_folders() {
    for (auto& [path, folder] : folders_) {
      if (!folder.has_image) continue;
      for (std::string_view above = parent_of(path); !above.empty(); above = parent_of(above))
        folders_.at(std::string(above)).has_image = true;
    }
    for (const auto& [path, folder] : folders_) {
      if (path.empty() || folder.has_image) continue;
      const bool is_class =
          options_.labels == Labels::top ? path.find('/') == std::string::npos : !folder.has_folder;
      if (is_class)
        listing_.empty_folders.push_back({files_.shown(path), "the class folder contains no image files"});
    }
    const auto by_name = [](const BadSample& a, const BadSample& b) { return a.source < b.source; };
    std::sort(listing_.empty_folders.begin(), listing_.empty_folders.end(), by_name);
  }

  // train/cat and test/cat are one class, because the label is the folder that directly contains the file.
  void note_parts() {
    for (const auto& [path, folder] : folders_) {
      if (options_.labels == Labels::folder && folder.has_image && !path.empty())
        listing_.parts.add(path, folder.place >= 0);
    }
  }

  const Files& files_;
  const SourceOptions& options_;
  const std::string root_name_;  // the label of images in the root, as that of single files
  Listing listing_;
  std::unordered_map<std::string, Folder> folders_;  // its elements do not move
  Folder* last_ = nullptr;
  std::string_view last_path_;
};

// Says of files by other names whether they are images. Only of some, because a server may be far. Whether it
// knows what one of them is.
bool look_into_strays(const Files& files, std::vector<BadSample>& strays) {
  constexpr size_t kMostLookedInto = 20;
  bool is_known = false;
  std::sort(strays.begin(), strays.end(),
            [](const BadSample& a, const BadSample& b) { return a.source < b.source; });
  for (size_t i = 0; i < std::min(strays.size(), kMostLookedInto); ++i) {
    if (strays[i].reason != kNoImageName) continue;
    std::array<char, 16> head{};
    const std::string path = strays[i].source.substr(files.shown("").size());
    try {
      const std::string_view bytes(head.data(), files.store()->read_at({path, -1}, 0, head));
      const std::string why = misnamed(bytes), other = other_format(bytes);
      if (!why.empty()) strays[i].reason = why + "; rename it";
      if (!other.empty()) strays[i].reason += ", but " + other;
      is_known = is_known || !why.empty() || !other.empty();
    } catch (const Error&) {  // what cannot be read is no image either
    }
  }
  return is_known;
}

ImagesOfClasses images_of_classes(const Files& files, const ImageListing& images) {
  std::string_view first;
  for (const ImageEntry& entry : images.entries) {
    const std::string_view path = files.path({.offset = entry.offset, .length = entry.length});
    if (first.empty() || path < first) first = path;
  }
  return {std::ssize(images.entries), files.shown(first)};
}

// CIFAR-10 as torchvision and others for Python unpack it.
void refuse_pickles(const std::vector<BadSample>& strays) {
  const auto pickle = std::ranges::find_if(
      strays, [](const BadSample& stray) { return stray.source.ends_with("/data_batch_1"); });
  if (pickle != strays.end())
    throw Error(ErrorCode::invalid_option,
                "\"" + pickle->source + "\" is of the Python version of CIFAR-10, which is not supported",
                "lockstep data get cifar10 downloads the binary version");
}

// The first one, or the first one for training: X_TRAIN.ts after X_TEST.ts. Empty: there is none.
std::string file_of_sequences(const std::vector<BadSample>& strays) {
  std::string first;
  for (const BadSample& stray : strays) {
    if (!is_ts_name(stray.source)) continue;
    if (lower(stray.source).ends_with("_train.ts")) return stray.source;
    if (first.empty()) first = stray.source;
  }
  return first;
}

bool has_images(const Listing& listing) {
  return !listing.images.entries.empty() ||
         std::ranges::any_of(listing.strays, [](const BadSample& one) { return is_image_name(one.source); });
}

// Beside files of sequences, or among images, other texts with numbers say nothing.
void refuse_unread_data(const Files& files, const Listing& listing) {
  if (listing.is_known_stray || !file_of_sequences(listing.strays).empty()) return;
  const auto may_be = has_images(listing) ? may_annotate_images : may_be_other_data;
  std::vector<std::string> paths;
  for (const BadSample& stray : listing.strays) {
    if (stray.reason == kNoImageName && may_be(stray.source))
      paths.push_back(stray.source.substr(files.shown("").size()));
  }
  refuse_other_data(files, paths);
}

void check_listing(const Files& files, const Listing& listing, const SourceOptions& options,
                   const FindTable& find_table) {
  const std::string& root = files.root();
  check_class_names(listing.images.classes, root, options);
  if (listing.images.entries.empty()) refuse_pickles(listing.strays);
  if (listing.images.entries.empty() && listing.folders == 1) {
    const bool only_images = has_images(listing);
    if (const std::string sequences = file_of_sequences(listing.strays); !sequences.empty())
      throw Error(ErrorCode::invalid_option,
                  "\"" + root + "\" has no class folders, but it has sequence files",
                  "name one of the files: " + sequences);
    if (find_table().empty())
      refuse_other_data(files, files.at_root(only_images ? may_annotate_images : may_be_other_data));
    if (options.unlabelled)
      throw Error(ErrorCode::invalid_option, "\"" + root + "\" contains no image files", hint_for_names());
    throw Error(
        ErrorCode::invalid_option,
        "\"" + root + "\" has no class folders" + (only_images ? ", only images" : ""),
        or_table("put the images of each class into their own folder: " + root + "/cat/1.png", find_table));
  }
  // Captions beside the images of a table are no fault of the data.
  const auto has_table = [&] {
    return options.classes.empty() && listing.images.classes.size() == 1 && !find_table().empty();
  };
  if (options.on_bad_sample == OnBadSample::fail && !options.unlabelled && !listing.strays.empty() &&
      !has_table()) {
    refuse_unread_data(files, listing);
    refuse_strays(root, listing.strays, images_of_classes(files, listing.images));
  }
  if (listing.images.entries.empty())
    throw Error(ErrorCode::invalid_option, "\"" + root + "\" contains no image files", hint_for_names());
  const bool may_be_empty =
      options.on_bad_sample == OnBadSample::skip || !options.classes.empty() || options.unlabelled;
  if (!may_be_empty && !listing.empty_folders.empty()) {
    throw Error(ErrorCode::invalid_option,
                "the class folder \"" + listing.empty_folders.front().source + "\" contains no image files",
                "remove the folder, or add --on-bad-sample skip");
  }
}

}  // namespace

bool fits_image_folder(const Files& files) { return !files.one_file(); }

Source open_image_folder(Files files, const SourceOptions& options) {
  const std::string& root = files.root();
  Listing listing = Sorting(files, options).run();
  listing.is_known_stray = look_into_strays(files, listing.strays);
  std::optional<std::string> table;
  const FindTable find_table = [&] {
    if (!table) table = table_of_classes(files);
    return *table;
  };
  check_listing(files, listing, options, find_table);
  std::vector<std::string> classes = listing.images.classes;
  std::sort(classes.begin(), classes.end());
  if (options.classes.empty() && !options.unlabelled) {
    if (classes.size() < 2)
      check_class_count(classes.size(), root, options,
                        or_table("name the folder that contains one folder for each class", find_table));
    listing.parts.check(root, classes.size(), find_table);
  }
  std::string warning =
      listing.parts.warning(root, options.classes.empty() ? classes : options.classes, find_table);
  listing.images.paths = files.take_paths();
  put_in_order(root, listing.images, options);

  std::vector<BadSample> skipped = std::move(listing.strays);
  if (options.classes.empty())
    skipped.insert(skipped.end(), listing.empty_folders.begin(), listing.empty_folders.end());
  std::sort(skipped.begin(), skipped.end(),
            [](const BadSample& a, const BadSample& b) { return a.source < b.source; });
  return {images_in(files.store(), std::move(listing.images), options, root), files.described("image folder"),
          std::move(skipped), std::move(warning)};
}

}  // namespace lockstep::data
