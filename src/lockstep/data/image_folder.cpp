#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <unordered_map>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/text.h"
#include "lockstep/data/decode.h"
#include "lockstep/data/internal/kinds.h"

namespace lockstep::data {
namespace {

constexpr size_t kMostDepth = 64;

// One picture: where its path lies in Listing::paths, and its class.
struct Entry {
  uint64_t offset = 0;
  uint32_t length = 0;
  int32_t label = 0;
};

// What one pass over the folders finds. Paths are relative to the root and lie in one text, for there may be millions.
struct Listing {
  std::string paths;
  std::vector<Entry> entries;
  std::vector<std::string> classes;
  std::unordered_map<std::string, int32_t> class_places;
  std::vector<BadSample> strays;
  std::vector<BadSample> empty_folders;
  size_t folders = 0;

  std::string_view path(const Entry& entry) const { return std::string_view(paths).substr(entry.offset, entry.length); }

  int32_t place_of(const std::string& name) {
    const auto [at, is_new] = class_places.try_emplace(name, static_cast<int32_t>(classes.size()));
    if (is_new) classes.push_back(name);
    return at->second;
  }
};

struct FolderId {
  dev_t device;
  ino_t number;
  friend bool operator==(const FolderId&, const FolderId&) = default;
};

bool is_hidden(std::string_view name) { return name.starts_with('.') || name == "Thumbs.db" || name == "__MACOSX"; }

bool is_note(std::string_view name) {
  const std::string low = lower(name);
  if (low.starts_with("readme") || low.starts_with("license") || low.starts_with("licence")) return true;
  constexpr std::array<std::string_view, 4> kEndings{".txt", ".csv", ".json", ".md"};
  return std::any_of(kEndings.begin(), kEndings.end(), [&](std::string_view ending) { return low.ends_with(ending); });
}

class Walk {
 public:
  Walk(std::string root, const SourceOptions& options) : root_(std::move(root)), options_(options) {}

  Listing run() {
    visit("", "", {});
    return std::move(listing_);
  }

 private:
  struct CloseFolder {
    void operator()(DIR* folder) const { ::closedir(folder); }
  };
  using Folder = std::unique_ptr<DIR, CloseFolder>;

  Folder open_folder(const std::string& path) const {
    Folder folder(::opendir(path.c_str()));
    if (folder == nullptr) throw errno_error(errno, "list", path);
    return folder;
  }

  // A link can lead back to a folder that holds it.
  static FolderId checked_id(DIR* folder, const std::string& path, const std::vector<FolderId>& above) {
    struct stat status {};
    if (::fstat(::dirfd(folder), &status) != 0) throw errno_error(errno, "list", path);
    const FolderId id{status.st_dev, status.st_ino};
    if (above.size() >= kMostDepth || std::find(above.begin(), above.end(), id) != above.end()) {
      throw Error(
          ErrorCode::invalid_option,
          "\"" + path + "\" leads back to a folder that holds it, or lies more than " + std::to_string(kMostDepth) + " folders deep",
          "remove the link");
    }
    return id;
  }

  static bool is_folder(DIR* folder, const dirent& item) {
    if (item.d_type != DT_LNK && item.d_type != DT_UNKNOWN) return item.d_type == DT_DIR;
    struct stat status {};
    return ::fstatat(::dirfd(folder), item.d_name, &status, 0) == 0 && S_ISDIR(status.st_mode);
  }

  void visit(const std::string& relative, const std::string& top, std::vector<FolderId> above) {
    const std::string path = relative.empty() ? root_ : root_ + "/" + relative;
    const std::string prefix = relative.empty() ? "" : relative + "/";
    Folder folder = open_folder(path);
    above.push_back(checked_id(folder.get(), path, above));
    ++listing_.folders;

    const std::string& label = options_.labels == Labels::top ? top : relative.substr(relative.rfind('/') + 1);
    const size_t before = listing_.entries.size();
    int32_t place = -1;
    std::vector<std::string> below;
    while (true) {
      errno = 0;
      const dirent* item = ::readdir(folder.get());
      if (item == nullptr) break;
      const std::string_view name = item->d_name;
      if (is_hidden(name)) continue;
      if (is_folder(folder.get(), *item)) {
        below.emplace_back(name);
      } else if (is_picture_name(name) && (!relative.empty() || options_.unlabelled)) {
        if (place < 0) place = listing_.place_of(label);
        add_picture(prefix, name, place);
      } else {
        add_stray(prefix, name, relative.empty());
      }
    }
    if (errno != 0) throw errno_error(errno, "list", path);
    folder.reset();

    std::sort(below.begin(), below.end());
    for (const std::string& name : below) visit(prefix + name, relative.empty() ? name : top, above);
    note_if_empty(relative, listing_.entries.size() == before, below.empty());
  }

  void add_picture(const std::string& prefix, std::string_view name, int32_t place) {
    listing_.entries.push_back({listing_.paths.size(), static_cast<uint32_t>(prefix.size() + name.size()), place});
    listing_.paths += prefix;
    listing_.paths += name;
  }

  void add_stray(const std::string& prefix, std::string_view name, bool in_root) {
    if (in_root && is_note(name)) return;
    const bool is_picture = is_picture_name(name);
    listing_.strays.push_back({root_ + "/" + prefix + std::string(name), is_picture ? "lies outside the class folders" : "is no picture file"});
  }

  // By folder, a folder of folders is no class; by first level, all that is below counts.
  void note_if_empty(const std::string& relative, bool no_picture, bool no_folder) {
    if (relative.empty() || !no_picture) return;
    const bool is_class = options_.labels == Labels::top ? relative.find('/') == std::string::npos : no_folder;
    if (is_class) listing_.empty_folders.push_back({root_ + "/" + relative, "the class folder holds no picture file"});
  }

  const std::string root_;
  const SourceOptions& options_;
  Listing listing_;
};

[[noreturn]] void refuse_strays(const std::string& root, std::vector<BadSample>& strays) {
  const auto first = std::min_element(strays.begin(), strays.end(), [](const BadSample& a, const BadSample& b) { return a.source < b.source; });
  const std::string files = strays.size() == 1 ? "1 file that is" : with_commas(static_cast<int64_t>(strays.size())) + " files that are";
  throw Error(ErrorCode::corrupt_data,
              "\"" + root + "\" holds " + files + " no picture of a class, the first \"" + first->source + "\": " + first->reason,
              "remove " + std::string(strays.size() == 1 ? "it" : "them") + ", or set --on-bad-sample skip");
}

void check_listing(const std::string& root, Listing& listing, const SourceOptions& options) {
  if (listing.entries.empty() && listing.folders == 1) {
    const bool has_pictures =
        std::any_of(listing.strays.begin(), listing.strays.end(), [](const BadSample& stray) { return is_picture_name(stray.source); });
    throw Error(ErrorCode::invalid_option, "\"" + root + "\" holds no class folders" + (has_pictures ? ", only pictures" : ""),
                "put the pictures of each class in a folder of its own: " + root + "/cat/1.png");
  }
  if (options.on_bad_sample == OnBadSample::fail && !options.unlabelled && !listing.strays.empty()) refuse_strays(root, listing.strays);
  if (listing.entries.empty())
    throw Error(ErrorCode::invalid_option, "\"" + root + "\" holds no picture file",
                "the pictures' names must end in .png, .jpg, .jpeg, .bmp, .ppm, .pgm, .tif, .tiff or .webp");
  const bool may_be_empty = options.on_bad_sample == OnBadSample::skip || !options.classes.empty() || options.unlabelled;
  if (!may_be_empty && !listing.empty_folders.empty()) {
    throw Error(ErrorCode::invalid_option, "the class folder \"" + listing.empty_folders.front().source + "\" holds no picture file",
                "remove the folder, or set --on-bad-sample skip");
  }
}

// Labels become places in the order of the names (or in options.classes), and pictures are put in order of label and path.
void put_in_order(const std::string& root, Listing& listing, const SourceOptions& options) {
  std::vector<std::string> sorted = listing.classes;
  std::sort(sorted.begin(), sorted.end());
  const std::vector<int64_t> places = match_classes(sorted, root, options);
  std::vector<int32_t> new_label(sorted.size());
  for (size_t i = 0; i < sorted.size(); ++i) new_label[static_cast<size_t>(listing.class_places.at(sorted[i]))] = static_cast<int32_t>(places[i]);
  for (Entry& entry : listing.entries) entry.label = new_label[static_cast<size_t>(entry.label)];
  std::sort(listing.entries.begin(), listing.entries.end(), [&](const Entry& a, const Entry& b) {
    return a.label != b.label ? a.label < b.label : listing.path(a) < listing.path(b);
  });
  listing.classes = options.classes.empty() ? std::move(sorted) : options.classes;
  listing.class_places.clear();
}

class ImageFolderStore : public Datastore {
 public:
  ImageFolderStore(std::string root, Listing listing) : root_(std::move(root)), listing_(std::move(listing)) {}

  int64_t size() const override { return static_cast<int64_t>(listing_.entries.size()); }
  const std::vector<std::string>& classes() const override { return listing_.classes; }
  int64_t label(int64_t index) const override { return at(index).label; }
  std::string source(int64_t index) const override { return root_ + "/" + std::string(listing_.path(at(index))); }

  ImageSize image_size(int64_t index) const override {
    const std::string path = source(index);
    return naming(path, [&] { return stored_size(path); });
  }

  void read_to(int64_t index, const Placement& placement) const override {
    const std::string path = source(index);
    naming(path, [&] { decode(path, read_file(path, kMostFileBytes), placement); });
  }

  uint64_t listing_hash() const override {
    uint64_t hash = static_cast<uint64_t>(size());
    for (const std::string& name : listing_.classes) hash = hash_of(name, hash);
    for (const Entry& entry : listing_.entries) hash = hash_of(listing_.path(entry), hash + static_cast<uint64_t>(entry.label));
    return hash;
  }

  // 0 where a file is gone: what is made of the others must not be kept.
  uint64_t content_hash() const override {
    uint64_t hash = static_cast<uint64_t>(size());
    for (int64_t i = 0; i < size(); ++i) {
      struct stat status {};
      if (::stat(source(i).c_str(), &status) != 0) return 0;
      const std::array<int64_t, 3> numbers{status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
      hash = hash_of(std::as_bytes(std::span(numbers)), hash);
    }
    return hash == 0 ? 1 : hash;
  }

  std::string identity() const override { return std::filesystem::absolute(root_).lexically_normal().string() + "/" + as_hex(listing_hash()); }

 private:
  const Entry& at(int64_t index) const { return listing_.entries.at(static_cast<size_t>(index)); }

  template <class Work>
  static auto naming(const std::string& path, Work&& work) -> decltype(work()) {
    try {
      return work();
    } catch (const DecodeError& error) {
      throw BadPicture(path, error.what());
    } catch (const std::bad_alloc&) {
      throw Error(ErrorCode::out_of_memory, "there is no memory to decode \"" + path + "\"", "use fewer reading threads, or smaller pictures");
    }
  }

  const std::string root_;
  const Listing listing_;
};

}  // namespace

bool fits_image_folder(const std::filesystem::path& path) { return std::filesystem::is_directory(path); }

Source open_image_folder(const std::filesystem::path& path, const SourceOptions& options) {
  std::string root = path.string();
  while (root.size() > 1 && root.ends_with('/')) root.pop_back();
  Listing listing = Walk(root, options).run();
  check_listing(root, listing, options);
  check_class_count(listing.classes.size(), root, options);
  put_in_order(root, listing, options);

  std::vector<BadSample> skipped = std::move(listing.strays);
  if (options.classes.empty()) skipped.insert(skipped.end(), listing.empty_folders.begin(), listing.empty_folders.end());
  std::sort(skipped.begin(), skipped.end(), [](const BadSample& a, const BadSample& b) { return a.source < b.source; });
  return {Dataset(std::make_shared<ImageFolderStore>(root, std::move(listing))), "image folder", std::move(skipped)};
}

}  // namespace lockstep::data
