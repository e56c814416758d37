#include "lockstep/cli/image_files.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "lockstep/base/file.h"
#include "lockstep/base/hash.h"
#include "lockstep/data/decode.h"

namespace lockstep::cli {
namespace {

class ImageFiles : public data::Datastore {
 public:
  ImageFiles(std::vector<std::filesystem::path> paths, std::vector<std::string> classes)
      : paths_(std::move(paths)), classes_(std::move(classes)) {
    for (const std::filesystem::path& path : paths_) {
      const auto found = std::find(classes_.begin(), classes_.end(),
                                   std::filesystem::absolute(path).parent_path().filename().string());
      labels_.push_back(found == classes_.end() ? -1 : found - classes_.begin());
    }
  }

  int64_t size() const override { return static_cast<int64_t>(paths_.size()); }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t index) const override { return labels_[static_cast<size_t>(index)]; }
  std::string source(int64_t index) const override { return paths_[static_cast<size_t>(index)].string(); }

  data::ImageSize image_size(int64_t index) const override {
    data::ImageSize size;
    named(index, [&](const std::string& path) { size = data::stored_size(path); });
    return size;
  }

  void read_to(int64_t index, const data::PixelSink& sink) const override {
    named(index,
          [&](const std::string& path) { data::decode(path, read_file(path, data::kMostFileBytes), sink); });
  }

  uint64_t listing_hash() const override {
    uint64_t hash = 0;
    for (const std::filesystem::path& path : paths_) hash = hash_of(path.string(), hash);
    return hash;
  }

 private:
  template <class Work>
  void named(int64_t index, Work work) const {
    const std::string path = source(index);
    try {
      work(path);
    } catch (const data::DecodeError& error) {
      throw data::BadImage(path, error.what());
    }
  }

  std::vector<std::filesystem::path> paths_;
  std::vector<std::string> classes_;
  std::vector<int64_t> labels_;
};

}  // namespace

data::Dataset image_files(std::vector<std::filesystem::path> paths, std::vector<std::string> classes) {
  return data::Dataset(std::make_shared<ImageFiles>(std::move(paths), std::move(classes)));
}

}  // namespace lockstep::cli
