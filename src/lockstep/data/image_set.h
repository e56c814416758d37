// The images of a dataset in one shape, decoded once and shared by all workers of the process.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "lockstep/data/datastore.h"
#include "lockstep/data/image_cache.h"
#include "lockstep/data/loading_line.h"
#include "lockstep/data/transform.h"

namespace lockstep::data {

/// The dataset that samples were selected from, through all selections, and a sample's index in it.
Dataset root_of(const Dataset& dataset);
int64_t index_in_root(const Datastore& store, int64_t index);

/// What to do with samples that cannot be read.
enum class OnBadSample { fail, skip };
constexpr std::array<const char*, 2> enum_names(OnBadSample) { return {"fail", "skip"}; }

/// A dataset in one format. Any thread may call any const member. Decoded images are kept in memory if all of
/// them fit in `most_bytes`; otherwise each read decodes again. Sequences are already in memory and are not
/// stored twice.
class ImageSet {
 public:
  /// Whether a set of these samples would keep them, within `most_bytes`.
  static bool keeps(const Dataset& dataset, const ImageFormat& format, int64_t most_bytes);

  /// Throws invalid_option if the samples are not of the format's kind, or if sequences have a different
  /// number of channels. With a cache (of the datastore that `dataset` is, or is selected from), images are
  /// read from the cache, and written to it once they are decoded.
  ImageSet(Dataset dataset, ImageFormat format, int64_t most_bytes,
           std::shared_ptr<const RecordFile> cache = nullptr);
  /// Selected samples (Dataset::subset, split) of the dataset of `whole`, or of an equal one. Both sets share
  /// the images that they decode and keep.
  ImageSet(Dataset part, std::shared_ptr<const ImageSet> whole);
  ~ImageSet();

  int64_t size() const;
  const ImageFormat& format() const;
  const Dataset& dataset() const;
  int64_t label(int64_t index) const;
  int64_t image_bytes() const;     ///< C * H * W; for sequences 4 * C * T of the longest
  int64_t parallel_reads() const;  ///< Datastore::parallel_reads
  bool kept() const;               ///< whether decoded images are kept
  int64_t kept_bytes() const;  ///< memory of this set's own copies once all are read; 0 for images that are
                               ///< already decoded in the dataset, and for a part

  const RecordFile* cache() const;  ///< null if there is none

  /// From now on images are taken from loaders where they have them. Not while another thread reads. A part
  /// does so for the set that it is part of.
  void load_from(std::shared_ptr<LoadingLine> line) const;
  /// Tells the loaders, if there are some, which samples are read next.
  void expect(std::span<const int64_t> indices) const;
  /// As read does, in the set of which this one is a part, and without keeping the image. For a loader.
  void decode(int64_t index_in_whole, std::span<uint8_t> destination) const;

  /// Writes the image to `destination` (image_bytes() long), decoding it if necessary. Throws corrupt_data
  /// with `cannot decode "path" (sample i of n): reason`. A sequence may be read to any length from its own
  /// up: `destination` is then float32 [C,T], filled with zeros beside the sequence.
  void read(int64_t index, std::span<uint8_t> destination) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Calls work(i) for i in 0..count-1 on up to `threads` threads, including the caller. After an exception no
/// new calls start, and one of the exceptions is rethrown.
void for_each_sample(int64_t count, int64_t threads, const std::function<void(int64_t)>& work);

/// A sample that was skipped, and why.
struct BadSample {
  std::string source;
  std::string reason;
};

/// Reads every sample once with `threads` threads. Returns the dataset without the samples that cannot be
/// read, in unchanged order, and the list of those, ordered by index. Readable samples are written to the
/// cache, if there is one. Because of this pass, --on-bad-sample skip does not depend on the number of
/// workers.
std::pair<Dataset, std::vector<BadSample>> without_bad_samples(
    const Dataset& dataset, const ImageFormat& format, int64_t threads,
    const std::shared_ptr<const RecordFile>& cache = nullptr);

}  // namespace lockstep::data
