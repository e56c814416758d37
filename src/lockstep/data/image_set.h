// The images of a dataset, all of one shape, decoded once and shared by every worker of the process.
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
#include "lockstep/data/transform.h"

namespace lockstep::data {

/// The dataset that samples were chosen from, through all choices, and a sample's place in it.
Dataset root_of(const Dataset& dataset);
int64_t index_in_root(const Datastore& store, int64_t index);

/// What becomes of samples that cannot be read.
enum class OnBadSample { fail, skip };
constexpr std::array<const char*, 2> enum_names(OnBadSample) { return {"fail", "skip"}; }

/// A dataset seen through one format. Any thread may call any const member.
/// The images are kept in memory once decoded when all of them fit in `most_bytes`; otherwise each read
/// decodes again. Sequences lie in memory already and are not kept twice.
class ImageSet {
 public:
  /// Whether a set of these keeps them, within `most_bytes`.
  static bool keeps(const Dataset& dataset, const ImageFormat& format, int64_t most_bytes);

  /// Throws invalid_option when the samples are not of the format's kind, or sequences have other channels
  /// than the format. With a cache (of the datastore that `dataset` is, or is chosen from) images are read
  /// from there, and written there once decoded.
  ImageSet(Dataset dataset, ImageFormat format, int64_t most_bytes,
           std::shared_ptr<const RecordFile> cache = nullptr);
  /// Chosen samples (Dataset::subset, split) of the dataset of `whole`, or of an equal one: what one decodes
  /// and keeps, the other has.
  ImageSet(Dataset part, std::shared_ptr<const ImageSet> whole);
  ~ImageSet();

  int64_t size() const;
  const ImageFormat& format() const;
  const Dataset& dataset() const;
  int64_t label(int64_t index) const;
  int64_t image_bytes() const;     ///< C * H * W; of sequences 4 * C * T for the longest
  int64_t parallel_reads() const;  ///< Datastore::parallel_reads
  bool kept() const;               ///< whether decoded images are kept
  int64_t kept_bytes() const;  ///< what this set's own copies take once all are read; 0 for images that lie
                               ///< decoded in the dataset, and for a part

  const RecordFile* cache() const;  ///< null without one

  /// Writes the image to `destination` (image_bytes() long), decoding it if it is not kept yet.
  /// Throws corrupt_data with `cannot decode "path" (sample i of n): reason`.
  /// A sequence may be read to any length from its own up: `destination` is then float32 [C,T], zeros beside
  /// the sequence.
  void read(int64_t index, std::span<uint8_t> destination) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Calls work(i) for i in 0..count-1 from up to `threads` threads, the caller's included. After a throw no
/// new calls begin; one of the exceptions leaves.
void for_each_sample(int64_t count, int64_t threads, const std::function<void(int64_t)>& work);

/// A sample that was left out, and why.
struct BadSample {
  std::string source;
  std::string reason;
};

/// Reads every sample once with `threads` threads and gives the dataset without those that cannot be read, in
/// unchanged order, and the list of them (ordered by index). Good ones are written to the cache, if there is
/// one. This makes --on-bad-sample skip independent of the number of workers.
std::pair<Dataset, std::vector<BadSample>> without_bad_samples(
    const Dataset& dataset, const ImageFormat& format, int64_t threads,
    const std::shared_ptr<const RecordFile>& cache = nullptr);

}  // namespace lockstep::data
