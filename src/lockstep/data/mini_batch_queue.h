// The mini-batches of one worker, in order, read ahead by threads.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/share.h"
#include "lockstep/data/datastore.h"
#include "lockstep/data/order.h"
#include "lockstep/data/image_set.h"
#include "lockstep/data/image_share.h"
#include "lockstep/data/shard_output.h"
#include "lockstep/data/transform.h"

namespace lockstep::data {

/// One shard of a mini-batch.
struct Shard {
  int64_t index = 0;        ///< 0..number of used shards of this mini-batch - 1
  int64_t first = 0;        ///< its first sample, counted from the mini-batch's first
  at::Tensor images = {};   ///< u8 [b,C,H,W] on the host; for sequences float32 [b,C,T], padded with zeros
  at::Tensor target = {};   ///< int64 [b] on the host, or [b,T] if each time step has a class, -1: none;
                            ///< otherwise as QueueOptions::output says
  int64_t count = 0;        ///< b
  at::Tensor input = {};    ///< the images as QueueOptions::output says; undefined in a queue of an
                            ///< ImageSet, where the trainer fills it
  at::Tensor lengths = {};  ///< for sequences, int64 [b] on the host: time steps without padding
  at::Tensor samples = {};  ///< int64 [b] on the host: indices into the dataset, if images are not wanted
  at::Tensor continues =
      {};  ///< for sequences, bool [b] on the host: continues the previous sample at this position
  bool padded_left = false;  ///< for sequences: padding is before them, not after
  // For images with mixup, on the host; otherwise undefined. The loss is target_share times the loss of
  // `target`, plus the remaining share of the loss of `mixed_target`.
  at::Tensor mixed_target = {};  ///< int64 [b]
  at::Tensor target_share = {};  ///< float32 [b]
  /// With QueueOptions::class_weights, double [classes] on the host, the same for all shards of a mini-batch:
  /// the loss of a target is multiplied by its class's. Their sum over the mini-batch's targets is
  /// Batch::target_count, so that the mean loss is the mean with these weights.
  at::Tensor class_weights = {};
};

/// Joins shards that are consecutive in one mini-batch's memory: their images and targets as one shard with
/// the first one's index. Throws internal for other shards, and for shards with more than images and targets.
Shard joined(std::span<const Shard> shards);

/// This worker's part of one mini-batch. A worker may have no shard of it.
struct Batch {
  Cursor cursor;              ///< the step of this mini-batch
  std::vector<Shard> shards;  ///< this worker's shards, in order, also in memory
  int64_t global_count = 0;   ///< samples of the mini-batch over all workers
  int64_t shard_count = 0;    ///< shards of the mini-batch over all workers
  int64_t iteration = 0;      ///< mini-batches before this one since epoch 0
  bool ends_epoch = false;    ///< the next mini-batch is in another epoch, or there is none
  int64_t target_count =
      0;  ///< the number of terms in the mean loss: samples with a label, or labelled time steps, over all
          ///< workers; all samples if ShardOutput::collate makes the targets
};

/// What to do with an epoch's last mini-batch if it is smaller than the others.
enum class PartialBatch { return_, discard };
constexpr std::array<const char*, 2> enum_names(PartialBatch) { return {"return", "discard"}; }

/// Where the queues of one process share their decoded images.
struct SharedImages {
  std::shared_ptr<ImageShare> share = {};  ///< empty: each queue keeps its own images
  int64_t most_bytes =
      0;  ///< maximum memory of all images in `share`, in bytes; a dataset beyond it is decoded at each read
};

struct QueueOptions {
  int64_t mini_batch_size = 128;
  int64_t shards = 8;      ///< number of equal parts (used_shards, part_of)
  int64_t shard_size = 0;  ///< above 0: shards of this many samples instead of equal parts; the mini-batch
                           ///< may have fewer of them, and a single remaining sample joins the last. A shard
                           ///< has the same worker in every mini-batch. With order.sampler_replicas, which
                           ///< are then the shards, all have equal parts of the last mini-batch
  int64_t ranks = 1;       ///< number of ranks, with equally many workers each, in order: a rank has the same
                           ///< shards for any number of workers
  std::vector<int64_t> rank_loads = {};  ///< Deal::loads
  Order order = {};                      ///< seed and shuffle rule
  Augment augment = {};                  ///< applied to the u8 images, seeded by (seed, epoch, sample)
  std::vector<int64_t> cut_out =
      {};  ///< {height, width} of the part of each image that is used. `augment` chooses it (otherwise
           ///< the centre) before other changes; empty: the whole image. random-crop needs it
  std::vector<double> class_weights = {};  ///< of the loss, for each class; empty: all are equal
  Cursor start = {};                       ///< the first mini-batch
  int64_t epochs = 1;                      ///< the queue ends after this many epochs, counted from epoch 0
  int64_t read_ahead = 4;                  ///< mini-batches kept ready
  int64_t threads = 1;                     ///< reading threads
  int64_t least_time_steps =
      0;  ///< sequences are padded to the longest one of the mini-batch, and at least to this many time steps
  bool pinned = false;  ///< use pinned memory, from which a GPU copies asynchronously; needs a GPU
  PartialBatch partial = PartialBatch::return_;
  bool images_wanted = true;  ///< false: shards have samples and targets, and images with undefined values
  // Only for a queue of a Dataset:
  std::optional<ImageFormat> images = {};  ///< the one shape of all images, or the sequences' channels
                                           ///< and padding; empty: format_of the dataset
  ShardOutput output = {};                 ///< how each shard's input and target are made
  SharedImages shared = {};  ///< on a pool of threads train::shared_images(worker): a dataset that
                             ///< several workers use, as one object or as equal folders, is then decoded
                             ///< and kept once, as long as one of their queues exists
};

/// Returns the mini-batches from `start` on, in order. The queues of all ranks return the same number of
/// them, with the same cursors. next() is called by one thread. If a sample cannot be read, next() throws
/// when that mini-batch is due, with "while filling mini-batch M of epoch E" (counted from 1) as context; the
/// following call returns the next mini-batch. The destructor stops the threads and waits for the images that
/// they are reading, one each.
///
/// A queue of a Dataset, of images or of sequences, is for custom loops: its shards have `input`, and a
/// range-based for loop works on it:
///   for (const auto& batch : MiniBatchQueue(digits, worker.share(), {.mini_batch_size = 128, .epochs = 5}))
///     for (const auto& shard : batch.shards) ...
/// Augmentation and random layers draw their numbers by the epoch. If you make a new queue for each epoch e,
/// for example for a dataset with your own order, set {.start = {.epoch = e}, .epochs = e + 1}. Otherwise
/// each queue is epoch 0 and draws the same numbers.
class MiniBatchQueue {
 public:
  /// For the trainer: shards have images, and no input.
  MiniBatchQueue(std::shared_ptr<const ImageSet> images, Share share, QueueOptions options);
  /// Decoded images are kept: in options.shared, or else by this queue if all of them take less than this
  /// rank's part of half the memory. Throws invalid_option for a dataset without a mini-batch, and for an
  /// output that its samples cannot have; device.
  MiniBatchQueue(const Dataset& dataset, Share share, QueueOptions options);
  ~MiniBatchQueue();
  MiniBatchQueue(const MiniBatchQueue&) = delete;
  MiniBatchQueue& operator=(const MiniBatchQueue&) = delete;

  /// The next mini-batch; none after the last one or when stopped.
  std::optional<Batch> next(std::stop_token stop = {});

  /// Whether next() will return a mini-batch or throw. Waits until that is known.
  bool has_data(std::stop_token stop = {});

  /// Calls next() whenever it is advanced.
  class Iterator {
   public:
    using difference_type = std::ptrdiff_t;
    using value_type = Batch;
    const Batch& operator*() const { return *batch_; }
    const Batch* operator->() const { return &*batch_; }
    Iterator& operator++() {
      batch_ = queue_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return !batch_; }

   private:
    friend MiniBatchQueue;
    explicit Iterator(MiniBatchQueue& queue) : queue_(&queue), batch_(queue.next()) {}
    MiniBatchQueue* queue_;
    std::optional<Batch> batch_;
  };
  Iterator begin() { return Iterator(*this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// How u8 images become a network's input.
struct InputFormat {
  at::ScalarType type = at::kFloat;
  at::Device device = at::kCPU;
  std::vector<double> mean = {};       ///< per channel, for pixels / 255; empty: nothing is subtracted
  std::vector<double> deviation = {};  ///< per channel; empty: nothing is divided
};

/// Converts u8 [b,C,H,W] to `type` on `device`: (pixel / 255 - mean) / deviation, like torchvision's ToTensor
/// and Normalize. Sequences, float32 [b,C,T], are not divided by 255: (value - mean) / deviation.
at::Tensor to_input(const at::Tensor& images, const InputFormat& format);

}  // namespace lockstep::data
