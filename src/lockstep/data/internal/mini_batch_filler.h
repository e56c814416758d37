// Fills the memory of one worker's mini-batches with samples.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "lockstep/base/share.h"
#include "lockstep/data/image_set.h"
#include "lockstep/data/mini_batch_queue.h"

namespace lockstep::data {

/// The part of one mini-batch that a worker reads, in pieces of a few samples. Its shards are views of a few
/// tensors.
struct Filling {
  Batch batch;
  std::vector<int64_t> samples;  ///< indices into the dataset
  int64_t piece_samples = 1;     ///< samples that a thread reads before it takes more
  uint8_t* images = nullptr;
  int64_t* target = nullptr;
  int64_t* mixed_target = nullptr;  ///< with mixup
  float* target_share = nullptr;
  int64_t sample_bytes = 0;
  int64_t targets = 1;  ///< per sample: 1, or T

  int64_t count() const { return static_cast<int64_t>(samples.size()); }
  int64_t pieces() const { return divided_up(count(), piece_samples); }
};

/// The failure of a sample; without an error, none failed.
struct FillError {
  std::exception_ptr error = nullptr;
  int64_t position = 0;  ///< of the sample in the filling
};

/// Throws invalid_option for options that are out of range.
void check_queue_options(const QueueOptions& options);

/// Const functions may be called by several threads at once.
class MiniBatchFiller {
 public:
  /// Throws as check_queue_options does, and invalid_option for options that do not suit the images.
  MiniBatchFiller(std::shared_ptr<const ImageSet> images, Share share, QueueOptions options);

  const QueueOptions& options() const { return options_; }
  const ImageSet& images() const { return *images_; }
  int64_t steps() const;  ///< mini-batches of an epoch
  int64_t reading_threads() const;
  std::vector<int64_t> order_of(int64_t epoch) const;

  /// A mini-batch without its samples, but with the targets' count and the sequences' lengths.
  ///   order  order_of(cursor.epoch)
  std::shared_ptr<Filling> open(Cursor cursor, const std::vector<int64_t>& order) const;

  /// Reads the samples of one piece, until one fails or at a stop. Different pieces may be read at the same
  /// time.
  FillError read_piece(Filling& filling, int64_t piece, const std::stop_token& stop) const;

 private:
  void check_slots() const;
  int64_t epoch_size() const { return options_.order.epoch_size(images_->size()); }
  int64_t waiting_reads() const;
  int64_t steps_of(int64_t index) const;
  int64_t count_targets(std::span<const int64_t> samples) const;
  at::Tensor class_weights(std::span<const int64_t> mini_batch, int64_t targets) const;
  Shard room_for(std::span<const int64_t> mini_batch, int64_t count) const;
  void connect(Filling& filling, const Shard& whole) const;
  void read_sample(Filling& filling, int64_t position) const;
  void read_image(int64_t index, std::span<uint8_t> image, uint64_t seed) const;
  void mix_sample(Filling& filling, int64_t position, std::span<uint8_t> image, uint64_t seed) const;

  const std::shared_ptr<const ImageSet> images_;
  const Share share_;
  const QueueOptions options_;
  const ImageFormat format_;  // of the shards' images
};

}  // namespace lockstep::data
