// Mini-batches of one worker, in order, read ahead by threads.
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
  int64_t index = 0;        ///< 0..used shards of this mini-batch - 1
  at::Tensor images = {};   ///< u8 [b,C,H,W] on the host; of sequences float32 [b,C,T], padded with zeros
  at::Tensor target = {};   ///< int64 [b] on the host, or [b,T] where each time step has a class, -1: none;
                            ///< else what QueueOptions::output asks for
  int64_t count = 0;        ///< b
  at::Tensor input = {};    ///< what QueueOptions::output makes of the images; undefined in a queue of a
                            ///< ImageSet, for the trainer to fill
  at::Tensor lengths = {};  ///< of sequences, int64 [b] on the host: time steps that are no padding
  at::Tensor samples = {};  ///< int64 [b] on the host: places in the dataset, where images are not wanted
  at::Tensor continues =
      {};  ///< of sequences, bool [b] on the host: goes on where the sample before it at this place ended
  bool padded_left = false;  ///< of sequences: padding stands before them, not after
  // Of images with mixup, on the host, else undefined: the loss is target_share times that of `target` and
  // the rest of that of `mixed_target`.
  at::Tensor mixed_target = {};  ///< int64 [b]
  at::Tensor target_share = {};  ///< float32 [b]
};

/// The images and targets of shards that lie one after the other in one mini-batch's memory, as one; its
/// index is the first one's. Throws internal for others, and for shards that have more than images and
/// targets.
Shard joined(std::span<const Shard> shards);

/// This worker's part of one mini-batch. A worker may own no shard of it.
struct Batch {
  Cursor cursor;              ///< the step this mini-batch is for
  std::vector<Shard> shards;  ///< the shards this worker owns, in order, which is also theirs in memory
  int64_t global_count = 0;   ///< samples in the mini-batch over all workers
  int64_t shard_count = 0;    ///< shards in the mini-batch over all workers
  int64_t iteration = 0;      ///< mini-batches before this one since epoch 0
  bool ends_epoch = false;    ///< the next one is of another epoch, or there is none
  int64_t target_count =
      0;  ///< what the loss is the mean over: samples with a label, or labelled time steps, over all workers;
          ///< all samples where ShardOutput::collate makes the targets
};

/// What becomes of an epoch's last mini-batch when it is smaller than the others.
enum class PartialBatch { return_, discard };
constexpr std::array<const char*, 2> enum_names(PartialBatch) { return {"return", "discard"}; }

/// Where the queues of one process keep their decoded images together.
struct SharedImages {
  std::shared_ptr<ImageShare> share = {};  ///< empty: each queue keeps its own
  int64_t most_bytes =
      0;  ///< what all images kept in `share` may take; a dataset that goes beyond is decoded at each read
};

struct QueueOptions {
  int64_t mini_batch_size = 128;
  int64_t shards = 8;      ///< even parts (used_shards, part_of)
  int64_t shard_size = 0;  ///< above 0: instead of even parts, shards of so many samples each, as far as the
                           ///< mini-batch goes; a single sample that is left joins the last of them. A shard
                           ///< has the same worker in every mini-batch; with order.sampler_replicas, which
                           ///< are then the shards, all have equal parts of the last one
  int64_t ranks = 1;     ///< that the workers are in, equally many in each and in order: a rank has the same
                         ///< shards for any number of its workers
  Order order = {};      ///< seed and shuffle rule
  Augment augment = {};  ///< applied to the u8 images, seeded by (seed, epoch, sample)
  std::vector<int64_t> cut_out =
      {};  ///< {height, width} of the part of each image that a shard has, which `augment` chooses (else
           ///< the centre) before it changes it; empty: the whole. random-crop needs one
  Cursor start = {};       ///< the first mini-batch to give
  int64_t epochs = 1;      ///< the queue ends after this many epochs (counted from epoch 0)
  int64_t read_ahead = 4;  ///< mini-batches kept ready
  int64_t threads = 1;     ///< reading threads
  int64_t least_time_steps =
      0;  ///< sequences are padded to the longest of the mini-batch, and at least to this many time steps
  bool pinned = false;  ///< into memory that a GPU reads by itself while the CPU goes on; needs a GPU
  PartialBatch partial = PartialBatch::return_;
  bool images_wanted = true;  ///< false: shards have samples and targets, and images without any values
  // For a queue of a Dataset alone:
  std::optional<ImageFormat> images = {};  ///< the one shape of all images, or the sequences' channels
                                           ///< and padding; empty: format_of the dataset
  ShardOutput output = {};                 ///< what each shard's input and target are
  SharedImages shared = {};  ///< on a pool of threads train::shared_images(worker): a dataset that
                             ///< several workers have, be it one object or equal folders, is then decoded
                             ///< and kept once, as long as one of their queues lives
};

/// Gives the mini-batches from `start` on, in order. Every rank's queue gives the same number of them with
/// the same cursors. next() is called by one thread. A sample that cannot be read throws from next() in its
/// turn, with "while filling mini-batch M of epoch E" (counted from 1) as context; the call after that gives
/// the next mini-batch. The destructor stops the threads and waits for the images they are reading, one
/// each.
///
/// A queue of a Dataset, be it of images or of sequences, is for loops of one's own: its shards have
/// `input`, and it can be walked over:
///   for (const auto& batch : MiniBatchQueue(digits, worker.share(), {.mini_batch_size = 128, .epochs = 5}))
///     for (const auto& shard : batch.shards) ...
/// Augmentation and random layers draw by the epoch. So who makes a queue for each epoch, as for a dataset in
/// an order of one's own, says which one it is, {.start = {.epoch = e}, .epochs = e + 1}: all would be the
/// first one else, and draw alike.
class MiniBatchQueue {
 public:
  /// The trainer's: shards have images, and no input.
  MiniBatchQueue(std::shared_ptr<const ImageSet> images, Share share, QueueOptions options);
  /// Images are kept once decoded: in options.shared, else by this queue where all of them take less than
  /// this rank's part of half the memory. Throws invalid_option for a dataset without a mini-batch and for an
  /// output that its samples cannot have; device.
  MiniBatchQueue(const Dataset& dataset, Share share, QueueOptions options);
  ~MiniBatchQueue();
  MiniBatchQueue(const MiniBatchQueue&) = delete;
  MiniBatchQueue& operator=(const MiniBatchQueue&) = delete;

  /// The next mini-batch; nothing after the last one or when stopped.
  std::optional<Batch> next(std::stop_token stop = {});

  /// Whether next() has a mini-batch to give, or an error. Waits until that is known.
  bool has_data(std::stop_token stop = {});

  /// Takes mini-batches by next() as it is moved.
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
  std::vector<double> mean = {};       ///< per channel, of pixels / 255; empty: nothing is subtracted
  std::vector<double> deviation = {};  ///< per channel; empty: nothing is divided
};

/// u8 [b,C,H,W] to `type` on `device`: (pixel / 255 - mean) / deviation, as torchvision's ToTensor and
/// Normalize. Sequences, float32 [b,C,T], are taken as they are: (value - mean) / deviation.
at::Tensor to_input(const at::Tensor& images, const InputFormat& format);

}  // namespace lockstep::data
