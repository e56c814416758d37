// Small synthetic datasets for the tests of queues.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/data/mini_batch_queue.h"

namespace lockstep::data::test {

// Images of 1x2: the index and its complement. `bad` cannot be read; `slow` images take a millisecond.
class Numbers : public Datastore {
 public:
  explicit Numbers(int64_t count, int64_t bad = -1, bool slow = false)
      : count_(count), bad_(bad), slow_(slow) {}
  int64_t size() const override { return count_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t index) const override { return index % 2; }
  std::string source(int64_t index) const override { return "#" + std::to_string(index); }
  ImageSize image_size(int64_t) const override { return {1, 1, 2}; }
  void read_to(int64_t index, const PixelSink& sink) const override {
    if (slow_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (index == bad_) throw BadImage(source(index), "it is damaged");
    const auto image = sink({1, 1, 2});
    image[0] = static_cast<uint8_t>(index);
    image[1] = static_cast<uint8_t>(~index);
  }
  uint64_t listing_hash() const override { return 1; }

 private:
  int64_t count_, bad_;
  bool slow_;
  std::vector<std::string> classes_{"even", "odd"};
};

inline std::shared_ptr<const ImageSet> numbers(int64_t count, int64_t bad = -1, bool slow = false,
                                               int64_t most_bytes = 1 << 20) {
  return std::make_shared<ImageSet>(Dataset(std::make_shared<Numbers>(count, bad, slow)),
                                    ImageFormat{1, 1, 2}, most_bytes);
}

inline Dataset plain_numbers(int64_t count, int64_t bad = -1) {
  return Dataset(std::make_shared<Numbers>(count, bad));
}

// Images of 4x6. The level of the first pixel is 24 times the index and increases by one from pixel to pixel.
class Grids : public Datastore {
 public:
  int64_t size() const override { return 10; }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t index) const override { return index % 2; }
  std::string source(int64_t index) const override { return "#" + std::to_string(index); }
  ImageSize image_size(int64_t) const override { return {1, 4, 6}; }
  void read_to(int64_t index, const PixelSink& sink) const override {
    auto level = static_cast<uint8_t>(24 * index);
    for (uint8_t& pixel : sink({1, 4, 6})) pixel = level++;
  }
  uint64_t listing_hash() const override { return 1; }

 private:
  std::vector<std::string> classes_{"even", "odd"};
};

inline std::shared_ptr<const ImageSet> grids() {
  return std::make_shared<ImageSet>(Dataset(std::make_shared<Grids>()), ImageFormat{1, 4, 6}, 1 << 20);
}

inline QueueOptions cutting_options(const char* augment) {
  return {.mini_batch_size = 7,
          .shards = 4,
          .order = {.seed = 3, .shuffle = Shuffle::never},
          .augment = Augment::parse(augment),
          .cut_out = {3, 4},
          .epochs = 20};
}

}  // namespace lockstep::data::test
