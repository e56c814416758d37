// What a labelled set of images is to the rest of the program.
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

/// A decoded image: 8-bit, planar [C,H,W], C is 1 (grey) or 3 (red, green, blue).
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

/// What the samples are: 8-bit images [C,H,W], or sequences, float32 [C,T], whose T time steps differ from
/// sample to sample.
enum class SampleKind { image, sequence };

/// A stored image that cannot be read: `cannot decode "path": reason`, corrupt_data.
class BadImage : public Error {
 public:
  /// A sample's number in its dataset, for the message: `(sample 16 of 96000)`, counted from 1.
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

/// Called once by a decoder when it knows the image's size; gives the memory, size.bytes() long, for the
/// planar pixels. Made of a function that does so. A reader that wants another size or colour gives a taker
/// too (data/pixels.h), which a decoder may hand its pixels instead.
class PixelSink {
 public:
  template <class Memory>
  requires std::is_invocable_r_v < std::span<uint8_t>,
  const Memory&,
      const ImageSize& > PixelSink(Memory memory, PixelTaker* taker = nullptr)
      : memory_(std::move(memory)),
  taker_(taker) {}  // NOLINT: a lambda is one
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
  /// Class names in label order; label i is classes()[i].
  virtual const std::vector<std::string>& classes() const = 0;
  virtual int64_t label(int64_t index) const = 0;
  /// Where the sample comes from, for messages: a path, or "file#17".
  virtual std::string source(int64_t index) const = 0;
  /// Throws BadImage, not_found or io, naming source(index).
  virtual ImageSize image_size(int64_t index) const = 0;
  /// Decodes the image as stored, [C,H,W], into the memory that `sink` gives. Throws as image_size
  /// does; the memory then holds anything.
  virtual void read_to(int64_t index, const PixelSink& sink) const = 0;
  /// Whether all images have one size and lie decoded in memory, so that keeping a copy of them would gain
  /// nothing.
  virtual bool in_memory() const { return false; }
  /// How many samples are best read at once: more than there are cores where each read waits for a network;
  /// 0: as many as there are cores.
  virtual int64_t parallel_reads() const { return 0; }
  /// Of a sequence [C,T], image_size is {C,1,T}, and read_to asks for that size and writes float32, 4 bytes a
  /// number.
  virtual SampleKind kind() const { return SampleKind::image; }
  /// Whether sequences have a class at every time step (time_step_labels, -1 where there is none) and not one
  /// as a whole (label, then -1).
  virtual bool labels_time_steps() const { return false; }
  virtual std::span<const int64_t> time_step_labels(int64_t) const { return {}; }
  /// Whether a sequence goes on where the sample at its place in the mini-batch before ended, so that
  /// recurrent state is carried over.
  virtual bool continues(int64_t) const { return false; }
  /// How many samples a mini-batch must have for that; 0: any number.
  virtual int64_t slots() const { return 0; }
  /// Path, count and order of the samples in one number: equal listings have equal hashes on every worker and
  /// at resume.
  virtual uint64_t listing_hash() const = 0;
  /// Sizes and times of the last change of what is read, in one number, for what is made of the images and
  /// kept; 0: nobody can tell.
  virtual uint64_t content_hash() const { return 0; }
  /// Where the images come from, in words that no other datastore of this process has unless it holds the
  /// same images and labels in the same order. Empty: nobody can tell, and the datastore is equal to itself
  /// only.
  virtual std::string identity() const { return {}; }
  /// For chosen samples of another datastore: that one, and the place of a sample in it; else null.
  virtual std::shared_ptr<const Datastore> whole() const { return nullptr; }
  virtual int64_t index_in_whole(int64_t index) const { return index; }

  /// read_to with memory of its own.
  Image read(int64_t index) const;
};

/// How split() draws its parts.
struct SplitOptions {
  int64_t seed = 0;
};

/// A cheap value: a handle to a datastore, or to chosen samples of one.
class Dataset {
 public:
  Dataset() = default;
  explicit Dataset(std::shared_ptr<const Datastore> store) : store_(std::move(store)) {}

  bool empty() const { return store_ == nullptr || store_->size() == 0; }
  int64_t size() const { return store_ == nullptr ? 0 : store_->size(); }
  const Datastore& store() const { return *store_; }
  const std::vector<std::string>& classes() const { return store_->classes(); }

  /// The samples at `indices`, in that order.
  Dataset subset(std::vector<int64_t> indices) const;

  /// Part `index` of `parts` equal ones, in order: part_of(size(), parts, index). For loops in which each
  /// worker has a dataset of its own. Throws invalid_option for an index that is not in [0, parts).
  Dataset partition(int64_t parts, int64_t index) const;

  /// All samples in an order drawn by the seed.
  Dataset shuffle(int64_t seed) const;

  /// Two parts: `share` (above 0, below 1; else invalid_option) of each label, drawn at random by the seed,
  /// and the rest. Each label with two samples or more has at least one in each part; both parts keep the
  /// order of the whole.
  std::pair<Dataset, Dataset> split(double share, SplitOptions options = {}) const;

  /// Two parts: `count` samples (1 or more) of each label that has any, drawn at random by the seed, and the
  /// rest. Both keep the order of the whole. Throws invalid_option, with the class's name, where a label
  /// would have none left for the rest.
  std::pair<Dataset, Dataset> split_by_count(int64_t count, SplitOptions options = {}) const;

 private:
  /// taken(label, samples of it) go to the first part.
  std::pair<Dataset, Dataset> split_labels(int64_t seed,
                                           const std::function<int64_t(int64_t, int64_t)>& taken) const;
  std::shared_ptr<const Datastore> store_;
};

}  // namespace lockstep::data
