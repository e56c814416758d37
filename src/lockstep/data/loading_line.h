// Memory that a training process shares with processes of its machine that decode images for it. It is a file
// without a name (memfd), so it ends with the last of them. The trainer says which samples it will read; a
// loader decodes them into slots; a sample that no loader has decoded in time is decoded by the trainer. So
// no loader is needed for an image, and none changes a pixel.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace lockstep::data {

struct LoadingHeader;
struct LoadingRegion;

/// The trainer's end. Any thread may call any member.
class LoadingLine {
 public:
  /// Throws io.
  LoadingLine();
  /// Tells the loaders that nothing more comes.
  ~LoadingLine();
  LoadingLine(const LoadingLine&) = delete;
  LoadingLine& operator=(const LoadingLine&) = delete;

  /// To pass to loaders; this object keeps it.
  int descriptor() const { return descriptor_; }

  /// From now on samples of another set are meant: `text` tells the loaders which, its images are image_bytes
  /// long, and at most `slots` of them wait at a time. Throws io.
  void open(const std::string& text, int64_t image_bytes, int64_t slots);

  /// Samples that will be read soon, in this order. Those without a free slot are left out.
  void expect(std::span<const int64_t> indices);

  /// Copies the image of a sample that a loader has decoded. False: the caller decodes it.
  bool take(int64_t index, std::span<uint8_t> destination);

  int64_t taken_count() const;

 private:
  int descriptor_ = -1;
  LoadingHeader* header_ = nullptr;
  mutable std::mutex mutex_;  // protects the members below, but for the memory that region_ points to
  std::shared_ptr<LoadingRegion> region_;
  std::vector<uint32_t> free_;
  std::unordered_map<int64_t, uint32_t> expected_;
  int64_t taken_ = 0;
  int64_t missed_ = 0;  // in a row
};

/// A loader's end.
class LoadingEnd {
 public:
  /// Takes ownership of the descriptor. `trainer_lives` is asked while it waits. Throws io or corrupt_data.
  LoadingEnd(int descriptor, std::function<bool()> trainer_lives);
  ~LoadingEnd();
  LoadingEnd(const LoadingEnd&) = delete;
  LoadingEnd& operator=(const LoadingEnd&) = delete;

  /// Waits for the next open(), and returns its text; nothing when no more comes.
  std::optional<std::string> next();

  /// Decodes what the trainer expects until it opens another set or ends; the number of images. `decode`
  /// writes the image of a sample and is called by several threads; what it throws leaves the sample to the
  /// trainer.
  int64_t serve(int64_t threads, const std::function<void(int64_t index, std::span<uint8_t> image)>& decode);

 private:
  bool is_over() const;
  bool serve_one(const std::function<void(int64_t, std::span<uint8_t>)>& decode, bool& found);

  int descriptor_;
  std::function<bool()> trainer_lives_;
  LoadingHeader* header_ = nullptr;
  uint32_t opened_ = 0;
  std::shared_ptr<LoadingRegion> region_;
};

}  // namespace lockstep::data
