#include "lockstep/data/sources.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <unordered_set>

#include "lockstep/base/error.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/text.h"
#include "lockstep/data/decode.h"
#include "lockstep/data/internal/kinds.h"
#include "lockstep/data/internal/other_data.h"
#include "lockstep/data/internal/unicode.h"
#include "lockstep/device/inventory.h"
#include "lockstep/io/address.h"
#include "lockstep/io/byte_store.h"

namespace lockstep::data {
namespace {

class ImagesInMemory : public Datastore {
 public:
  explicit ImagesInMemory(Images images) : images_(std::move(images)) {}
  int64_t size() const override { return static_cast<int64_t>(images_.labels.size()); }
  const std::vector<std::string>& classes() const override { return images_.classes; }
  int64_t label(int64_t index) const override { return images_.labels.at(static_cast<size_t>(index)); }
  std::string source(int64_t index) const override {
    const auto next =
        std::ranges::upper_bound(images_.files, index, {}, [](const auto& file) { return file.first; });
    if (next == images_.files.begin()) return images_.path + "#" + std::to_string(index);
    const auto& [first, path] = *std::prev(next);
    return path + "#" + std::to_string(index - first);
  }
  ImageSize image_size(int64_t) const override { return images_.size; }
  void read_to(int64_t index, const PixelSink& sink) const override {
    const int64_t bytes = images_.size.bytes();
    const std::span<uint8_t> destination = sink(images_.size);
    std::copy_n(images_.pixels.data() + index * bytes, bytes, destination.data());
  }
  bool in_memory() const override { return true; }
  uint64_t listing_hash() const override {
    uint64_t hash =
        hash_of(std::as_bytes(std::span(images_.labels)), static_cast<uint64_t>(images_.size.bytes()));
    for (const std::string& name : images_.classes) hash = hash_of(name, hash);
    return hash;
  }

 private:
  Images images_;
};

// The folder with IDX files or CIFAR binaries, as archives unpack them: cifar-10-batches-bin, MNIST/raw. None
// if there are several, or images.
std::optional<std::string> folder_with_binaries(const Files& files) {
  std::optional<std::string> folder;
  for (const Files::Name& name : files.names()) {
    if (name.kind != io::Listed::Kind::file) continue;
    const std::string_view path = files.path(name);
    if (is_image_name(path)) return std::nullopt;
    const size_t slash = path.rfind('/');
    if (slash == std::string_view::npos) continue;
    const std::string_view file = path.substr(slash + 1);
    if (!is_idx_name(file) && !is_published_cifar_name(file)) continue;
    if (folder && *folder != path.substr(0, slash)) return std::nullopt;
    folder = path.substr(0, slash);
  }
  return folder;
}

// Two names that look the same are one class to whoever gave them. Where classes are matched, they are one.
void check_forms(const std::vector<std::string>& names, const std::string& path,
                 const SourceOptions& options) {
  if (!options.classes.empty()) return;
  std::unordered_set<std::string> forms;
  for (const std::string& name : names) {
    if (forms.insert(decomposed(name)).second) continue;
    throw Error(ErrorCode::invalid_option,
                "\"" + path + "\" has two classes that are both shown as \"" + name +
                    "\": in one name a letter with an accent is one character, in the other two, as on macOS",
                "give both the same name, for folders with: convmv -f utf8 -t utf8 --nfc -r --notest FOLDER");
  }
}

}  // namespace

std::vector<int64_t> match_classes(const std::vector<std::string>& found, const std::string& path,
                                   const SourceOptions& options) {
  const std::vector<std::string>& wanted = options.classes.empty() ? found : options.classes;
  std::vector<int64_t> places;
  for (const std::string& name : found) {
    auto at = std::find(wanted.begin(), wanted.end(), name);
    if (at == wanted.end()) at = std::ranges::find(wanted, decomposed(name), decomposed);
    if (at == wanted.end() && !options.unlabelled) {
      const std::string near = nearest(name, wanted);
      throw Error(ErrorCode::invalid_option,
                  "\"" + path + "\" has a class \"" + name + "\" that is not among the " +
                      std::to_string(wanted.size()) + " classes of the training set",
                  near.empty() ? "classes are matched by their names; rename or remove this one"
                               : "did you mean \"" + near + "\"? classes are matched by their names");
    }
    places.push_back(at == wanted.end() ? -1 : at - wanted.begin());
  }
  return places;
}

void check_fits_memory(const std::string& path, int64_t bytes) {
  const int64_t most = device::memory_limit();
  if (bytes <= most) return;
  throw Error(
      ErrorCode::out_of_memory,
      "\"" + path + "\" needs " + as_bytes(bytes) + " of memory, but only " + as_bytes(most) + " are allowed",
      "split the data, or convert them to a folder of image files, which are read when needed");
}

void check_class_count(size_t count, const std::string& path, const SourceOptions& options,
                       std::string hint) {
  if (count >= 2 || !options.classes.empty() || options.unlabelled) return;
  throw Error(ErrorCode::invalid_option,
              "\"" + path + "\" has " + (count == 0 ? "no classes" : "only one class") +
                  ", but training needs at least two",
              std::move(hint));
}

void check_class_names(const std::vector<std::string>& names, const std::string& path,
                       const SourceOptions& options) {
  if (options.unlabelled && !options.classes.empty()) return;
  const auto bad = std::find_if_not(names.begin(), names.end(), is_utf8);
  if (bad == names.end()) return check_forms(names, path, options);
  throw Error(ErrorCode::invalid_option,
              "\"" + path + "\" has a class \"" + *bad +
                  "\" with a name that is not UTF-8, but class names must be UTF-8",
              "rename the folder, or save the file that names the class as UTF-8");
}

Source source_of(Images images, std::string kind, const SourceOptions& options) {
  check_class_names(images.classes, images.path, options);
  check_class_count(images.classes.size(), images.path, options);
  const std::vector<int64_t> places = match_classes(images.classes, images.path, options);
  for (int64_t& label : images.labels) label = label < 0 ? -1 : places[static_cast<size_t>(label)];
  if (!options.classes.empty()) images.classes = options.classes;
  return {Dataset(std::make_shared<ImagesInMemory>(std::move(images))), std::move(kind), {}};
}

Source open_source(const std::filesystem::path& path, const SourceOptions& options) {
  Files files(path.string(), {.most_memory = options.most_memory}, source_kinds());
  const std::optional<std::string> below =
      io::is_address(path.string()) ? std::nullopt : folder_with_binaries(files);
  for (const SourceKind& kind : source_kinds()) {
    if (kind.reads_below && below) return open_source(path / *below, options);
    if (kind.fits(files)) return kind.open(std::move(files), options);
  }
  if (files.one_file()) {
    const std::string file(files.path(files.names().front()));
    refuse_other_data(files, {file});
    if (files.store()->size_of(file) == 0)
      throw Error(ErrorCode::invalid_option, "\"" + files.root() + "\" is empty");
  }
  std::vector<std::string> known;
  for (const SourceKind& kind : source_kinds()) known.emplace_back(kind.looks_like);
  throw Error(
      ErrorCode::invalid_option, "\"" + files.root() + "\" does not contain data of a known kind",
      "supported are " + join(known, ", or ") + "; all of them also in a .tar (not a .zip) or at s3://");
}

ImageFolder::ImageFolder(const std::filesystem::path& folder, const SourceOptions& options)
    : Dataset(open_image_folder(Files(folder.string(), {.most_memory = options.most_memory}, {}), options)
                  .dataset) {}

}  // namespace lockstep::data
