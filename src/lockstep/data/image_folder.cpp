#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <new>
#include <span>
#include <unordered_map>

#include <sys/stat.h>

#include "lockstep/base/error.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/text.h"
#include "lockstep/data/decode.h"
#include "lockstep/data/internal/dataset_parts.h"
#include "lockstep/data/internal/formats.h"
#include "lockstep/data/internal/kinds.h"
#include "lockstep/data/internal/reopened.h"
#include "lockstep/data/internal/strays.h"
#include "lockstep/io/address.h"

namespace lockstep::data {
namespace {

constexpr const char* kNoImageName = "it is not a PNG, JPEG, BMP, PPM, TIFF or WebP file";

// An image: the offset of its path in Listing::paths, its size in bytes if it is known, and its class.
struct Entry {
  uint64_t offset = 0;
  int64_t bytes = -1;
  uint32_t length = 0;
  int32_t label = 0;
};

// The result of sorting the files. Paths are relative to the root.
struct Listing {
  std::string paths;  // of Files
  std::vector<Entry> entries;
  std::vector<std::string> classes;
  std::unordered_map<std::string, int32_t> class_places;
  std::vector<BadSample> strays;
  std::vector<BadSample> empty_folders;
  DatasetParts parts;
  size_t folders = 0;
  uint64_t contents = 0;  // sum of all images' contents_of, because stores have no order; 0 if one is unknown

  std::string_view path(const Entry& entry) const {
    return std::string_view(paths).substr(entry.offset, entry.length);
  }
  io::FileName file(const Entry& entry) const { return {path(entry), entry.bytes}; }

  int32_t place_of(const std::string& name) {
    const auto [at, is_new] = class_places.try_emplace(name, static_cast<int32_t>(classes.size()));
    if (is_new) classes.push_back(name);
    return at->second;
  }
};

std::string_view parent_of(std::string_view path) {
  return path.substr(0, path.rfind('/') == std::string_view::npos ? 0 : path.rfind('/'));
}
std::string_view name_in(std::string_view path) {
  return path.substr(path.rfind('/') == std::string_view::npos ? 0 : path.rfind('/') + 1);
}

// A hash of an image's size and change time; 0 if the listing does not have them.
uint64_t contents_of(const io::Listed& listed) {
  if (!listed.changed) return 0;
  const std::array<int64_t, 2> numbers{listed.size, *listed.changed};
  return hash_of(listed.path, hash_of(std::as_bytes(std::span(numbers))));
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
    if (!all_known_) listing_.contents = 0;
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
      if (folder.place < 0) folder.place = listing_.place_of(std::string(label_of(parent)));
      folder.has_image = true;
      const uint64_t contents = contents_of(listed);
      all_known_ &= contents != 0;
      listing_.contents += contents;
      listing_.entries.push_back({file.offset, file.bytes, file.length, folder.place});
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
  bool all_known_ = true;
  std::unordered_map<std::string, Folder> folders_;  // its elements do not move
  Folder* last_ = nullptr;
  std::string_view last_path_;
};

// Says of files by other names whether they are images. Only of some, because a server may be far.
void look_into_strays(const Files& files, std::vector<BadSample>& strays) {
  constexpr size_t kMostLookedInto = 20;
  std::sort(strays.begin(), strays.end(),
            [](const BadSample& a, const BadSample& b) { return a.source < b.source; });
  for (size_t i = 0; i < std::min(strays.size(), kMostLookedInto); ++i) {
    if (strays[i].reason != kNoImageName) continue;
    std::array<char, 16> head{};
    const std::string path = strays[i].source.substr(files.shown("").size());
    try {
      const std::string why = misnamed({head.data(), files.store()->read_at({path, -1}, 0, head)});
      if (!why.empty()) strays[i].reason = why + "; rename it";
    } catch (const Error&) {  // what cannot be read is no image either
    }
  }
}

ImagesOfClasses images_of_classes(const std::string& root, const Listing& listing) {
  std::string_view first;
  for (const Entry& entry : listing.entries) {
    if (first.empty() || listing.path(entry) < first) first = listing.path(entry);
  }
  return {static_cast<int64_t>(listing.entries.size()), root + "/" + std::string(first)};
}

constexpr const char* kImageNames =
    "image names must end in .png, .jpg, .jpeg, .bmp, .ppm, .pgm, .tif, .tiff or .webp";

void check_listing(const std::string& root, Listing& listing, const SourceOptions& options) {
  check_class_names(listing.classes, root, options);
  if (listing.entries.empty() && listing.folders == 1) {
    const bool has_images = std::any_of(listing.strays.begin(), listing.strays.end(),
                                        [](const BadSample& stray) { return is_image_name(stray.source); });
    const auto sequences =
        std::find_if(listing.strays.begin(), listing.strays.end(),
                     [](const BadSample& stray) { return lower(stray.source).ends_with(".ts"); });
    if (sequences != listing.strays.end())
      throw Error(ErrorCode::invalid_option,
                  "\"" + root + "\" has no class folders, but it has sequence files",
                  "name one of the files: " + sequences->source);
    if (options.unlabelled)
      throw Error(ErrorCode::invalid_option, "\"" + root + "\" contains no image files", kImageNames);
    throw Error(ErrorCode::invalid_option,
                "\"" + root + "\" has no class folders" + (has_images ? ", only images" : ""),
                "put the images of each class into their own folder: " + root + "/cat/1.png");
  }
  if (options.on_bad_sample == OnBadSample::fail && !options.unlabelled && !listing.strays.empty())
    refuse_strays(root, listing.strays, images_of_classes(root, listing));
  if (listing.entries.empty())
    throw Error(ErrorCode::invalid_option, "\"" + root + "\" contains no image files", kImageNames);
  const bool may_be_empty =
      options.on_bad_sample == OnBadSample::skip || !options.classes.empty() || options.unlabelled;
  if (!may_be_empty && !listing.empty_folders.empty()) {
    throw Error(ErrorCode::invalid_option,
                "the class folder \"" + listing.empty_folders.front().source + "\" contains no image files",
                "remove the folder, or add --on-bad-sample skip");
  }
}

// Labels become indices in the order of the names (or of options.classes), and images are sorted by label and
// path.
void put_in_order(const std::string& root, Listing& listing, const SourceOptions& options) {
  std::vector<std::string> sorted = listing.classes;
  std::sort(sorted.begin(), sorted.end());
  const std::vector<int64_t> places = match_classes(sorted, root, options);
  std::vector<int32_t> new_label(sorted.size());
  for (size_t i = 0; i < sorted.size(); ++i)
    new_label[static_cast<size_t>(listing.class_places.at(sorted[i]))] = static_cast<int32_t>(places[i]);
  for (Entry& entry : listing.entries) entry.label = new_label[static_cast<size_t>(entry.label)];
  std::sort(listing.entries.begin(), listing.entries.end(), [&](const Entry& a, const Entry& b) {
    return a.label != b.label ? a.label < b.label : listing.path(a) < listing.path(b);
  });
  listing.classes = options.classes;
  if (listing.classes.empty()) listing.classes = std::move(sorted);
  listing.class_places.clear();
}

class ImageFolderStore : public Datastore, public Reopened {
 public:
  ImageFolderStore(std::shared_ptr<const io::ByteStore> store, Listing listing, const SourceOptions& options)
      : store_(std::move(store)), listing_(std::move(listing)), options_(options) {}

  int64_t size() const override { return static_cast<int64_t>(listing_.entries.size()); }
  const std::vector<std::string>& classes() const override { return listing_.classes; }
  int64_t label(int64_t index) const override { return at(index).label; }
  std::string source(int64_t index) const override {
    return store_->name() + "/" + std::string(listing_.path(at(index)));
  }
  int64_t parallel_reads() const override { return store_->parallel_reads(); }

  ImageSize image_size(int64_t index) const override {
    const std::string path = source(index);
    const io::FileName file = listing_.file(at(index));
    return naming(path, [&] {
      return stored_size(path, [&](int64_t offset, std::span<char> destination) {
        return store_->read_at(file, offset, destination);
      });
    });
  }

  void read_to(int64_t index, const PixelSink& sink) const override {
    const std::string path = source(index);
    naming(path, [&] { decode(path, store_->read(listing_.file(at(index)), kMostFileBytes), sink); });
  }

  uint64_t listing_hash() const override {
    uint64_t hash = static_cast<uint64_t>(size());
    for (const std::string& name : listing_.classes) hash = hash_of(name, hash);
    for (const Entry& entry : listing_.entries)
      hash = hash_of(listing_.path(entry), hash + static_cast<uint64_t>(entry.label));
    return hash;
  }

  // A folder's listing has no times, so the folder is listed again.
  uint64_t content_hash() const override {
    if (listing_.contents != 0) return listing_.contents;
    uint64_t sum = 0;
    bool all_known = true;
    store_->list(io::Sizes::wanted, [&](const io::Listed& listed) {
      const bool wanted = !is_hidden(name_in(listed.path));
      if (listed.kind == io::Listed::Kind::file && wanted && is_image_name(listed.path)) {
        const uint64_t contents = contents_of(listed);
        all_known &= contents != 0;
        sum += contents;
      }
      return wanted;
    });
    return all_known ? sum : 0;
  }

  std::string identity() const override { return opened_from() + "/" + as_hex(listing_hash()); }

  const SourceOptions& opened_with() const override { return options_; }
  std::string opened_from() const override {
    const std::string& root = store_->name();
    return io::is_address(root) ? root : std::filesystem::absolute(root).lexically_normal().string();
  }

 private:
  const Entry& at(int64_t index) const { return listing_.entries.at(static_cast<size_t>(index)); }

  template <class Work>
  static auto naming(const std::string& path, Work&& work) -> decltype(work()) {
    try {
      return work();
    } catch (const DecodeError& error) {
      throw BadImage(path, error.what());
    } catch (const std::bad_alloc&) {
      throw Error(ErrorCode::out_of_memory, "not enough memory to decode \"" + path + "\"",
                  "use fewer reading threads, or smaller images");
    }
  }

  const std::shared_ptr<const io::ByteStore> store_;
  const Listing listing_;
  const SourceOptions options_;
};

}  // namespace

bool fits_image_folder(const Files& files) { return !files.one_file(); }

Source open_image_folder(Files files, const SourceOptions& options) {
  const std::string& root = files.root();
  Listing listing = Sorting(files, options).run();
  listing.paths = files.take_paths();
  if (!options.unlabelled) look_into_strays(files, listing.strays);
  check_listing(root, listing, options);
  check_class_count(listing.classes.size(), root, options);
  if (options.classes.empty() && !options.unlabelled) listing.parts.check(root, listing.classes.size());
  put_in_order(root, listing, options);

  std::vector<BadSample> skipped = std::move(listing.strays);
  if (options.classes.empty())
    skipped.insert(skipped.end(), listing.empty_folders.begin(), listing.empty_folders.end());
  std::sort(skipped.begin(), skipped.end(),
            [](const BadSample& a, const BadSample& b) { return a.source < b.source; });
  std::string warning = listing.parts.warning(root, listing.classes);
  return {Dataset(std::make_shared<ImageFolderStore>(files.store(), std::move(listing), options)),
          files.described("image folder"), std::move(skipped), std::move(warning)};
}

}  // namespace lockstep::data
