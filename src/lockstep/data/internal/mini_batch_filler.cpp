#include "lockstep/data/internal/mini_batch_filler.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "lockstep/base/error.h"
#include "lockstep/base/seed.h"
#include "lockstep/data/centre.h"
#include "lockstep/data/internal/shard_layout.h"
#include "lockstep/data/internal/thread_buffer.h"

namespace lockstep::data {
namespace {

// Several threads share one mini-batch, so that the first one is ready soon.
constexpr int64_t kPieceSamples = 16;

QueueOptions checked(QueueOptions options) {
  check_queue_options(options);
  return options;
}

}  // namespace

void check_queue_options(const QueueOptions& options) {
  const bool sizes_fit = options.mini_batch_size > 0 && options.shards > 0 && options.shard_size >= 0 &&
                         options.read_ahead > 0 && options.threads > 0;
  if (!sizes_fit || options.start.epoch < 0 || options.start.step < 0) {
    throw Error(ErrorCode::invalid_option,
                "a mini-batch queue needs mini_batch_size, shards, read_ahead and threads of at least 1 "
                "and a start of at least 0");
  }
  if (!options.class_weights.empty() && options.augment.mixup > 0)
    throw Error(ErrorCode::invalid_option, "mixup cannot be combined with weights of classes",
                "leave out one of them");
  const std::vector<int64_t>& part = options.cut_out;
  if (!part.empty() && (part.size() != 2 || part[0] < 1 || part[1] < 1))
    throw Error(ErrorCode::invalid_option, "a mini-batch queue needs a cut_out of at least 1x1");
  if (options.augment.random_crop && part.empty()) {
    throw Error(ErrorCode::invalid_option,
                "random-crop needs larger images and the size of the part to cut out",
                "set .cut_out = {height, width}, or use shift, which pads the image");
  }
}

MiniBatchFiller::MiniBatchFiller(std::shared_ptr<const ImageSet> images, Share share, QueueOptions options)
    : images_(std::move(images)),
      share_(share),
      options_(checked(std::move(options))),
      format_(options_.cut_out.empty() ? images_->format()
                                       : images_->format().sized(options_.cut_out[0], options_.cut_out[1])) {
  if ((options_.augment.any() || !options_.cut_out.empty()) && format_.kind != SampleKind::image)
    throw Error(ErrorCode::invalid_option, "cannot augment sequences, only images", "remove --augment");
  check_part(format_, images_->format());
  check_slots();
}

// In mini-batches of another size, a piece would not be at the position of the previous piece.
void MiniBatchFiller::check_slots() const {
  const int64_t slots = images_->dataset().empty() ? 0 : images_->dataset().store().slots();
  if (slots == 0 || slots == options_.mini_batch_size) return;
  throw Error(ErrorCode::invalid_option,
              "pieces of streams in " + std::to_string(slots) +
                  " slots need mini-batches of that size, not " + std::to_string(options_.mini_batch_size),
              "set the mini-batch size to the number of slots");
}

int64_t MiniBatchFiller::steps() const {
  if (options_.partial == PartialBatch::discard) return epoch_size() / options_.mini_batch_size;
  return steps_per_epoch(epoch_size(), options_.mini_batch_size);
}

// If each read waits for a network, many parallel reads hide the wait; the store's number counts for all
// workers.
int64_t MiniBatchFiller::waiting_reads() const { return divided_up(images_->parallel_reads(), share_.size); }

int64_t MiniBatchFiller::reading_threads() const { return std::max(options_.threads, waiting_reads()); }

std::vector<int64_t> MiniBatchFiller::order_of(int64_t epoch) const {
  return options_.order.of_epoch(images_->size(), epoch);
}

std::shared_ptr<Filling> MiniBatchFiller::open(Cursor cursor, const std::vector<int64_t>& order) const {
  const Range range = mini_batch_range(epoch_size(), options_.mini_batch_size, cursor.step);
  const std::span<const int64_t> mini_batch =
      std::span(order).subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.count()));
  auto filling = std::make_shared<Filling>();
  filling->piece_samples = waiting_reads() > 0 ? 1 : kPieceSamples;
  Batch& batch = filling->batch;
  batch.cursor = cursor;
  batch.iteration = cursor.epoch * steps() + cursor.step;
  batch.ends_epoch = cursor.step + 1 == steps();
  batch.global_count = range.count();
  batch.shard_count = shards_of(options_, range.count());
  batch.target_count = count_targets(mini_batch);
  const Range owned = owned_shards(options_, batch.shard_count, share_);
  if (owned.count() == 0) return filling;
  const int64_t begin = shard_range(options_, range.count(), batch.shard_count, owned.begin).begin;
  const int64_t end = shard_range(options_, range.count(), batch.shard_count, owned.end - 1).end;
  filling->samples.assign(mini_batch.begin() + begin, mini_batch.begin() + end);
  Shard whole = room_for(mini_batch, end - begin);
  whole.class_weights = class_weights(mini_batch, batch.target_count);
  connect(*filling, whole);
  batch.shards = cut_into_shards(whole, owned, options_, batch);
  return filling;
}

void MiniBatchFiller::connect(Filling& filling, const Shard& whole) const {
  if (whole.samples.defined())
    std::copy(filling.samples.begin(), filling.samples.end(), whole.samples.data_ptr<int64_t>());
  filling.images = static_cast<uint8_t*>(whole.images.data_ptr());
  filling.target = whole.target.data_ptr<int64_t>();
  if (whole.mixed_target.defined()) {
    filling.mixed_target = whole.mixed_target.data_ptr<int64_t>();
    filling.target_share = whole.target_share.data_ptr<float>();
  }
  filling.sample_bytes = static_cast<int64_t>(whole.images.nbytes()) / whole.count;
  filling.targets = whole.target.numel() / whole.count;
  for (int64_t i = 0; whole.lengths.defined() && i < whole.count; ++i) {
    const int64_t index = filling.samples[static_cast<size_t>(i)];
    whole.lengths.data_ptr<int64_t>()[i] = steps_of(index);
    whole.continues.data_ptr<bool>()[i] = images_->dataset().store().continues(index);
  }
}

int64_t MiniBatchFiller::steps_of(int64_t index) const {
  return images_->dataset().store().image_size(index).width;
}

// Memory for `count` samples of the mini-batch. Its length is that of the longest sequence of
// the whole mini-batch, not only of this worker's.
Shard MiniBatchFiller::room_for(std::span<const int64_t> mini_batch, int64_t count) const {
  const auto host = at::TensorOptions().pinned_memory(options_.pinned);
  Shard room{.count = count};
  room.padded_left = format_.padding == PaddingSide::left;
  if (!options_.images_wanted) room.samples = at::empty({count}, host.dtype(at::kLong));
  if (format_.kind == SampleKind::image) {
    const int64_t channels = options_.images_wanted ? format_.channels : 0;
    room.images = at::empty({count, channels, format_.height, format_.width}, host.dtype(at::kByte));
    room.target = at::empty({count}, host.dtype(at::kLong));
    if (options_.augment.mixup > 0) {
      room.mixed_target = at::empty({count}, host.dtype(at::kLong));
      room.target_share = at::empty({count}, host.dtype(at::kFloat));
    }
    return room;
  }
  int64_t longest = std::max<int64_t>(options_.least_time_steps, 1);
  for (const int64_t index : mini_batch) longest = std::max(longest, steps_of(index));
  room.images = at::empty({count, format_.channels, longest}, host.dtype(at::kFloat));
  room.target = images_->dataset().store().labels_time_steps()
                    ? at::full({count, longest}, -1, host.dtype(at::kLong))
                    : at::empty({count}, host.dtype(at::kLong));
  room.lengths = at::empty({count}, at::kLong);
  room.continues = at::empty({count}, at::kBool);
  return room;
}

int64_t MiniBatchFiller::count_targets(std::span<const int64_t> samples) const {
  const Datastore& store = images_->dataset().store();
  const bool of_steps = store.labels_time_steps();
  int64_t count = 0;
  for (const int64_t index : samples) {
    const auto labels = store.time_step_labels(index);
    count += of_steps ? std::count_if(labels.begin(), labels.end(), [](int64_t label) { return label >= 0; })
                      : store.label(index) >= 0;
  }
  return count;
}

// Every worker adds the weights of all targets of the mini-batch, in their order.
at::Tensor MiniBatchFiller::class_weights(std::span<const int64_t> mini_batch, int64_t targets) const {
  const std::vector<double>& weights = options_.class_weights;
  if (weights.empty()) return {};
  const Datastore& store = images_->dataset().store();
  double sum = 0;
  const auto add = [&](int64_t label) { sum += label < 0 ? 0 : weights.at(static_cast<size_t>(label)); };
  for (const int64_t index : mini_batch) {
    if (store.labels_time_steps()) {
      for (const int64_t label : store.time_step_labels(index)) add(label);
    } else {
      add(images_->label(index));
    }
  }
  at::Tensor scaled = at::empty({static_cast<int64_t>(weights.size())}, at::kDouble);
  const double scale = sum > 0 ? static_cast<double>(targets) / sum : 0;
  for (size_t i = 0; i < weights.size(); ++i) scaled.data_ptr<double>()[i] = weights[i] * scale;
  return scaled;
}

FillError MiniBatchFiller::read_piece(Filling& filling, int64_t piece, const std::stop_token& stop) const {
  const int64_t begin = piece * filling.piece_samples;
  const int64_t end = std::min(begin + filling.piece_samples, filling.count());
  for (int64_t i = begin; i < end && !stop.stop_requested(); ++i) {
    try {
      read_sample(filling, i);
    } catch (...) {
      return {std::current_exception(), i};
    }
  }
  return {};
}

void MiniBatchFiller::read_sample(Filling& filling, int64_t position) const {
  const int64_t index = filling.samples[static_cast<size_t>(position)];
  const int64_t bytes = filling.sample_bytes;
  const std::span<uint8_t> image(filling.images + position * bytes, static_cast<size_t>(bytes));
  const uint64_t seed =
      seed_of({static_cast<uint64_t>(options_.order.seed), static_cast<uint64_t>(filling.batch.cursor.epoch),
               static_cast<uint64_t>(index)});
  read_image(index, image, seed);
  if (images_->dataset().store().labels_time_steps()) {
    const auto labels = images_->dataset().store().time_step_labels(index);
    const int64_t before = images_->format().padding == PaddingSide::left
                               ? filling.targets - static_cast<int64_t>(labels.size())
                               : 0;
    std::copy(labels.begin(), labels.end(), filling.target + position * filling.targets + before);
    return;
  }
  filling.target[position] = images_->label(index);
  if (filling.mixed_target != nullptr) mix_sample(filling, position, image, seed);
}

void MiniBatchFiller::read_image(int64_t index, std::span<uint8_t> image, uint64_t seed) const {
  if (!options_.images_wanted) return;
  if (!options_.cut_out.empty()) {
    thread_local ThreadBuffer memory;
    const std::span<uint8_t> whole = memory.of(static_cast<size_t>(images_->image_bytes()));
    images_->read(index, whole);
    return options_.augment.apply(whole, images_->format(), image, format_, seed);
  }
  images_->read(index, image);
  if (options_.augment.any()) options_.augment.apply(image, format_, seed);
}

// The other sample is augmented too, with random numbers of this sample.
void MiniBatchFiller::mix_sample(Filling& filling, int64_t position, std::span<uint8_t> image,
                                 uint64_t seed) const {
  thread_local std::vector<uint8_t> other;
  const Mix mix = options_.augment.draw_mix(images_->size(), seed);
  other.resize(image.size());
  read_image(mix.other, other, seed_of({seed, static_cast<uint64_t>(mix.other)}));
  mix_in(image, other, mix.share);
  filling.mixed_target[position] = images_->label(mix.other);
  filling.target_share[position] = static_cast<float>(mix.share) / 256;
}

}  // namespace lockstep::data
