#include "lockstep/data/sources.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/text.h"
#include "lockstep/data/internal/kinds.h"
#include "lockstep/device/inventory.h"
#include "lockstep/io/byte_store.h"

namespace lockstep::data {
namespace {

class ImagesInMemory : public Datastore {
 public:
  explicit ImagesInMemory(Images images) : images_(std::move(images)) {}
  int64_t size() const override { return static_cast<int64_t>(images_.labels.size()); }
  const std::vector<std::string>& classes() const override { return images_.classes; }
  int64_t label(int64_t index) const override { return images_.labels.at(static_cast<size_t>(index)); }
  std::string source(int64_t index) const override { return images_.path + "#" + std::to_string(index); }
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

}  // namespace

std::vector<int64_t> match_classes(const std::vector<std::string>& found, const std::string& path,
                                   const SourceOptions& options) {
  const std::vector<std::string>& wanted = options.classes.empty() ? found : options.classes;
  std::vector<int64_t> places;
  for (const std::string& name : found) {
    const auto at = std::find(wanted.begin(), wanted.end(), name);
    if (at == wanted.end() && !options.unlabelled) {
      const std::string near = nearest(name, wanted);
      throw Error(ErrorCode::invalid_option,
                  "\"" + path + "\" has a class \"" + name + "\" that is not among the " +
                      std::to_string(wanted.size()) + " classes of the training set",
                  near.empty()
                      ? "rename or remove the folder; classes are matched by the names of their folders"
                      : "did you mean \"" + near + "\"? classes are matched by the names of their folders");
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

void check_class_count(size_t count, const std::string& path, const SourceOptions& options) {
  if (count >= 2 || !options.classes.empty() || options.unlabelled) return;
  throw Error(ErrorCode::invalid_option,
              "\"" + path + "\" has " + (count == 0 ? "no classes" : "only one class") +
                  ", but training needs at least two",
              "name the folder that contains one folder for each class");
}

Source source_of(Images images, std::string kind, const SourceOptions& options) {
  check_class_count(images.classes.size(), images.path, options);
  const std::vector<int64_t> places = match_classes(images.classes, images.path, options);
  for (int64_t& label : images.labels) label = label < 0 ? -1 : places[static_cast<size_t>(label)];
  if (!options.classes.empty()) images.classes = options.classes;
  return {Dataset(std::make_shared<ImagesInMemory>(std::move(images))), std::move(kind), {}};
}

Source open_source(const std::filesystem::path& path, const SourceOptions& options) {
  Files files(path.string(), {.most_memory = options.most_memory}, source_kinds());
  for (const SourceKind& kind : source_kinds()) {
    if (kind.fits(files)) return kind.open(std::move(files), options);
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
