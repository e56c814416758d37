// A labelled set of images or sequences, as the rest of the program sees it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::data {

/// A decoded image: 8-bit, planar [C,H,W]; C is 1 (grey) or 3 (red, green, blue).
struct Image {
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;
  std::vector<uint8_t> pixels;
};

/// Width, height and channels of a stored image, read from its header without decoding it.
struct ImageSize {
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;
  int64_t bytes() const { return channels * height * width; }
  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

/// The kind of the samples: 8-bit images [C,H,W], or sequences, float32 [C,T], whose number of time steps T
/// may vary.
enum class SampleKind { image, sequence };

/// A stored image that cannot be read: `cannot decode "path": reason`, corrupt_data.
class BadImage : public Error {
 public:
  /// A sample's number in its dataset, for messages: `(sample 16 of 96,000)`, counted from 1.
  struct Position {
    int64_t number = 0;
    int64_t count = 0;
  };
  BadImage(std::string source, std::string reason, std::optional<Position> place = {});
  const std::string& source() const { return source_; }
  const std::string& reason() const { return reason_; }

 private:
  std::string source_;
  std::string reason_;
};

class PixelTaker;

/// Called once by a decoder when it knows the image's size. Returns memory of size.bytes() bytes for the
/// planar pixels. Can be made from a function that does so. A reader that wants another size or other
/// channels also supplies a taker (data/pixels.h), and a decoder may pass its pixels to that instead.
class PixelSink {
 public:
  template <class Memory>
  requires std::is_invocable_r_v < std::span<uint8_t>,
  const Memory&,
      const ImageSize& > PixelSink(Memory memory, PixelTaker* taker = nullptr)
      : memory_(std::move(memory)),
  taker_(taker) {}  // NOLINT: lambdas convert implicitly
  std::span<uint8_t> operator()(const ImageSize& size) const { return memory_(size); }
  PixelTaker* taker() const { return taker_; }

 private:
  std::function<std::span<uint8_t>(const ImageSize&)> memory_;
  PixelTaker* taker_;
};

/// Samples by index. Const, without state or randomness: any thread may call any member at any time.
class Datastore {
 public:
  virtual ~Datastore() = default;

  virtual int64_t size() const = 0;
  /// Class names in label order: label i is classes()[i].
  virtual const std::vector<std::string>& classes() const = 0;
  /// A place in classes(); -1: the sample has none.
  virtual int64_t label(int64_t index) const = 0;
  /// The origin of a sample, for messages: a path, or "file#17".
  virtual std::string source(int64_t index) const = 0;
  /// Throws BadImage, not_found or io, naming source(index).
  virtual ImageSize image_size(int64_t index) const = 0;
  /// Decodes the image as stored, [C,H,W], into the memory that `sink` returns. Throws as image_size does;
  /// the contents of that memory are then undefined.
  virtual void read_to(int64_t index, const PixelSink& sink) const = 0;
  /// Whether all images have the same size and are already decoded in memory, so that another copy would save
  /// nothing.
  virtual bool in_memory() const { return false; }
  /// The best number of parallel reads: more than the number of cores if each read waits for a network; 0:
  /// the number of cores.
  virtual int64_t parallel_reads() const { return 0; }
  /// For a sequence [C,T], image_size is {C,1,T}; read_to asks for that size and writes float32, 4 bytes per
  /// number.
  virtual SampleKind kind() const { return SampleKind::image; }
  /// Whether sequences have a class for each time step (time_step_labels, -1 where there is none) instead of
  /// one for the whole sequence (label is then -1).
  virtual bool labels_time_steps() const { return false; }
  virtual std::span<const int64_t> time_step_labels(int64_t) const { return {}; }
  /// Whether a sequence continues the sample at the same position of the previous mini-batch, so that the
  /// recurrent state is carried over.
  virtual bool continues(int64_t) const { return false; }
  /// The number of samples that a mini-batch must have for continues(); 0: any number.
  virtual int64_t slots() const { return 0; }
  /// A hash of the paths, number and order of the samples: equal listings have equal hashes on every worker
  /// and at a resume.
  virtual uint64_t listing_hash() const = 0;
  /// A hash of the sizes and change times of the data, for files derived from the images; 0: unknown.
  virtual uint64_t content_hash() const { return 0; }
  /// Identifies the data within this process: two datastores have the same text only if they hold the same
  /// images and labels in the same order. Empty: unknown; the datastore then equals only itself.
  virtual std::string identity() const { return {}; }
  /// For selected samples of another datastore: that datastore, and the index of a sample in it; otherwise
  /// null.
  virtual std::shared_ptr<const Datastore> whole() const { return nullptr; }
  virtual int64_t index_in_whole(int64_t index) const { return index; }

  /// read_to with its own memory.
  Image read(int64_t index) const;
};

/// How split() draws its parts.
struct SplitOptions {
  int64_t seed = 0;
};

/// A value that is cheap to copy: a handle to a datastore, or to selected samples of one.
class Dataset {
 public:
  Dataset() = default;
  explicit Dataset(std::shared_ptr<const Datastore> store) : store_(std::move(store)) {}

  bool empty() const { return store_ == nullptr || store_->size() == 0; }
  int64_t size() const { return store_ == nullptr ? 0 : store_->size(); }
  /// Throws invalid_option for Dataset(), which has none.
  const Datastore& store() const;
  /// Of Dataset(): none.
  const std::vector<std::string>& classes() const;

  /// The samples at `indices`, in that order.
  Dataset subset(std::vector<int64_t> indices) const;

  /// Part `index` of `parts` equal parts, in order: part_of(size(), parts, index). For loops in which each
  /// worker has its own dataset. Throws invalid_option for an index outside [0, parts).
  Dataset partition(int64_t parts, int64_t index) const;

  /// All samples in a random order given by the seed.
  Dataset shuffle(int64_t seed) const;

  /// Two parts: `share` (above 0 and below 1, otherwise invalid_option) of the samples of each label, drawn
  /// with the seed, and the rest. Each label with two or more samples has at least one in each part; both
  /// parts keep the order of the whole.
  std::pair<Dataset, Dataset> split(double share, SplitOptions options = {}) const;

  /// Two parts: `count` samples (1 or more) of each label that has any, drawn with the seed, and the rest.
  /// Both keep the order of the whole. Throws invalid_option with the class's name if no sample of a label
  /// would remain for the rest.
  std::pair<Dataset, Dataset> split_by_count(int64_t count, SplitOptions options = {}) const;

  /// Two parts: all samples but fold `index` (from 0) of `count` folds, and that fold. Each sample is in one
  /// fold, drawn with the seed. Folds differ by one sample at most, and so do the samples of a label in them:
  /// the sizes are those of scikit-learn's StratifiedKFold. Both parts keep the order of the whole. Throws
  /// invalid_option for fewer than two folds, more than there are samples, and an index outside [0, count).
  std::pair<Dataset, Dataset> split_fold(int64_t count, int64_t index, SplitOptions options = {}) const;

 private:
  std::shared_ptr<const Datastore> store_;
};

}  // namespace lockstep::data
