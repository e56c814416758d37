#include "lockstep/data/images_in_memory.h"

#include <algorithm>
#include <memory>

#include "lockstep/base/counted.h"
#include "lockstep/base/hash.h"

namespace lockstep::data {
namespace {

class ImagesInMemory : public Datastore {
 public:
  ImagesInMemory(const ImageSize& size, std::vector<std::string> classes, std::span<const uint8_t> pixels,
                 std::vector<int64_t> labels)
      : size_(size),
        classes_(std::move(classes)),
        pixels_(pixels.begin(), pixels.end()),
        labels_(std::move(labels)) {
    check_size();
    for (size_t i = 0; i < labels_.size(); ++i) check_label(i);
  }
  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t index) const override { return labels_.at(static_cast<size_t>(index)); }
  std::string source(int64_t index) const override { return "image " + std::to_string(index); }
  ImageSize image_size(int64_t) const override { return size_; }
  void read_to(int64_t index, const PixelSink& sink) const override {
    const auto begin = pixels_.begin() + index * size_.bytes();
    std::copy(begin, begin + size_.bytes(), sink(size_).begin());
  }
  bool in_memory() const override { return true; }
  uint64_t listing_hash() const override {
    const int64_t shape[]{size_.channels, size_.height, size_.width};
    uint64_t hash = hash_of(std::as_bytes(std::span(labels_)), hash_of(std::as_bytes(std::span(shape)), 0));
    hash = hash_of(std::as_bytes(std::span(pixels_)), hash);
    for (const std::string& name : classes_) hash = hash_of(name, hash);
    return hash;
  }

 private:
  void check_size() const {
    const std::string shape = std::to_string(size_.channels) + "x" + std::to_string(size_.height) + "x" +
                              std::to_string(size_.width);
    if ((size_.channels != 1 && size_.channels != 3) || size_.height < 1 || size_.width < 1)
      throw Error(ErrorCode::invalid_option, "images cannot be of size " + shape,
                  "give channels (1 or 3), height and width");
    const int64_t wanted = size() * size_.bytes();
    if (static_cast<int64_t>(pixels_.size()) != wanted)
      throw Error(ErrorCode::invalid_option,
                  counted(size(), "image") + " of " + shape + " have " + std::to_string(wanted) +
                      " pixel values, but " + std::to_string(pixels_.size()) + " are given",
                  "give one label for each image, and uint8 pixels [n,C,H,W]");
  }
  void check_label(size_t image) const {
    const int64_t label = labels_[image];
    if (label >= 0 && label < static_cast<int64_t>(classes_.size())) return;
    throw Error(ErrorCode::invalid_option,
                "image " + std::to_string(image) + " has the label " + std::to_string(label) +
                    (classes_.size() == 1 ? ", but there is " : ", but there are ") +
                    counted(std::ssize(classes_), "class"),
                "labels count from 0");
  }

  ImageSize size_;
  std::vector<std::string> classes_;
  std::vector<uint8_t> pixels_;
  std::vector<int64_t> labels_;
};

}  // namespace

Dataset make_images(const ImageSize& size, std::vector<std::string> classes, std::span<const uint8_t> pixels,
                    std::vector<int64_t> labels) {
  return Dataset(std::make_shared<ImagesInMemory>(size, std::move(classes), pixels, std::move(labels)));
}

}  // namespace lockstep::data
