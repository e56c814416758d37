#include "lockstep/data/mini_batch_queue.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include <ATen/ATen.h>

#include "lockstep/base/error.h"
#include "lockstep/base/seed.h"
#include "lockstep/base/stop_scope.h"
#include "lockstep/data/centre.h"
#include "lockstep/data/internal/thread_buffer.h"
#include "lockstep/data/survey.h"
#include "lockstep/device/inventory.h"

namespace lockstep::data {
namespace {

// Samples that a thread reads before it takes more. Several threads share one mini-batch, so that the first
// one is ready soon.
constexpr int64_t kPieceSamples = 16;

}  // namespace

// The part of one mini-batch that this worker reads. Its shards are views of two tensors.
struct Filling {
  int64_t piece_samples = kPieceSamples;
  Batch batch;
  std::vector<int64_t> samples;  // indices into the dataset
  uint8_t* images = nullptr;
  int64_t* target = nullptr;
  int64_t* mixed_target = nullptr;  // with mixup
  float* target_share = nullptr;
  int64_t sample_bytes = 0;
  int64_t targets = 1;  // targets per sample: 1, or T
  int64_t next_piece = 0;
  int64_t pieces_left = 0;
  std::exception_ptr error;
  int64_t error_at = 0;  // position of the first bad sample of the mini-batch, which is reported

  int64_t count() const { return static_cast<int64_t>(samples.size()); }
  int64_t pieces() const { return divided_up(count(), piece_samples); }
};

namespace {

// The replicas of a sampler also have equal parts of the last mini-batch.
int64_t shard_size_of(const QueueOptions& options, int64_t count) {
  return options.order.sampler_replicas > 0 ? count / options.order.sampler_replicas : options.shard_size;
}

// The number of shards of a mini-batch of `count` samples.
int64_t shards_of(const QueueOptions& options, int64_t count) {
  if (options.shard_size == 0) return used_shards(options.shards, count);
  const int64_t size = shard_size_of(options, count);
  const bool single = size > 1 && count > 1 && count % size == 1;
  return divided_up(count, size) - single;
}

// The samples of one shard, counted from the mini-batch's first.
Range shard_range(const QueueOptions& options, int64_t count, int64_t shard_count, int64_t index) {
  if (options.shard_size == 0) return part_of(count, shard_count, index);
  const int64_t size = shard_size_of(options, count), begin = index * size;
  return {begin, index + 1 == shard_count ? count : begin + size};
}

// A worker's shards. Shards of fixed size keep their worker; a smaller mini-batch has fewer of them.
Range owned_shards(const QueueOptions& options, int64_t shard_count, Share share) {
  if (options.shard_size == 0) return part_of_worker(shard_count, options.ranks, share);
  const Range range = part_of_worker(shards_of(options, options.mini_batch_size), options.ranks, share);
  return {std::min(range.begin, shard_count), std::min(range.end, shard_count)};
}

// This worker's shards from `whole`, which has all samples.
std::vector<Shard> cut(const Shard& whole, Range owned, const QueueOptions& options, const Batch& batch) {
  std::vector<Shard> shards;
  const auto part = [](const at::Tensor& tensor, Range rows) {
    return tensor.defined() ? tensor.narrow(0, rows.begin, rows.count()) : at::Tensor();
  };
  const int64_t first = shard_range(options, batch.global_count, batch.shard_count, owned.begin).begin;
  for (int64_t index = owned.begin; index < owned.end; ++index) {
    const Range range = shard_range(options, batch.global_count, batch.shard_count, index);
    const Range rows{range.begin - first, range.end - first};
    shards.push_back({.index = index,
                      .images = part(whole.images, rows),
                      .target = part(whole.target, rows),
                      .count = rows.count(),
                      .lengths = part(whole.lengths, rows),
                      .samples = part(whole.samples, rows),
                      .continues = part(whole.continues, rows),
                      .padded_left = whole.padded_left,
                      .mixed_target = part(whole.mixed_target, rows),
                      .target_share = part(whole.target_share, rows)});
  }
  return shards;
}

QueueOptions checked(QueueOptions options) {
  const bool sizes_fit = options.mini_batch_size > 0 && options.shards > 0 && options.shard_size >= 0 &&
                         options.read_ahead > 0 && options.threads > 0;
  if (!sizes_fit || options.start.epoch < 0 || options.start.step < 0) {
    throw Error(ErrorCode::invalid_option,
                "a mini-batch queue needs mini_batch_size, shards, read_ahead and threads of at least 1 "
                "and a start of at least 0");
  }
  const std::vector<int64_t>& part = options.cut_out;
  if (!part.empty() && (part.size() != 2 || part[0] < 1 || part[1] < 1))
    throw Error(ErrorCode::invalid_option, "a mini-batch queue needs a cut_out of at least 1x1");
  if (options.augment.random_crop && part.empty()) {
    throw Error(ErrorCode::invalid_option,
                "random-crop needs larger images and the size of the part to cut out",
                "set .cut_out = {height, width}, or use shift, which pads the image");
  }
  return options;
}

// The queue of a Dataset makes its images itself.
std::shared_ptr<const ImageSet> images_of(const Dataset& dataset, Share share, const QueueOptions& options) {
  if (dataset.empty())
    throw Error(ErrorCode::invalid_option, "a mini-batch queue needs a dataset with at least one sample");
  if (options.partial == PartialBatch::discard && dataset.size() < options.mini_batch_size) {
    throw Error(ErrorCode::invalid_option,
                "a dataset of " + std::to_string(dataset.size()) + " samples has no complete mini-batch of " +
                    std::to_string(options.mini_batch_size),
                "use smaller mini-batches, or return partial ones");
  }
  check_output(options.output, dataset);
  const ImageFormat format = options.images ? *options.images : format_of(dataset);
  if (options.shared.share != nullptr)
    return options.shared.share->open(dataset, format, options.shared.most_bytes);
  return std::make_shared<const ImageSet>(dataset, format, device::inspect().memory_bytes / 2 / share.size);
}

}  // namespace

struct MiniBatchQueue::State {
  const std::shared_ptr<const ImageSet> images;
  const Share share;
  const QueueOptions options;
  const ImageFormat format;                      // format of the shards' images
  std::optional<at::Device> output_device = {};  // for a queue that also fills Shard::input

  std::mutex mutex;
  std::condition_variable_any changed;
  // Everything below is used under the mutex, except the memory of pieces that a thread has taken.
  std::deque<std::shared_ptr<Filling>> fillings;  // in order; the front is returned next
  Cursor cursor;                                  // position of the next filling to open
  std::vector<int64_t> order;                     // order of cursor.epoch
  std::exception_ptr broken;                      // why no further mini-batch can be opened
  std::vector<std::jthread> threads;              // last member, so that the threads end before what they use

  State(std::shared_ptr<const ImageSet> set, Share part, QueueOptions chosen)
      : images(std::move(set)),
        share(part),
        options(checked(chosen)),
        format(options.cut_out.empty() ? images->format()
                                       : images->format().sized(options.cut_out[0], options.cut_out[1])),
        cursor(options.start) {
    settle_cursor();
    if ((options.augment.any() || !options.cut_out.empty()) && format.kind != SampleKind::image)
      throw Error(ErrorCode::invalid_option, "cannot augment sequences, only images", "remove --augment");
    check_part(format, images->format());
    check_slots();
    if (!at_end()) order = options.order.of_epoch(images->size(), cursor.epoch);
    for (int64_t i = 0; i < thread_count(); ++i)
      threads.emplace_back([this](std::stop_token stop) { work(stop); });
  }

  // In mini-batches of another size, a piece would not be at the position of the previous piece.
  void check_slots() const {
    const int64_t slots = images->dataset().empty() ? 0 : images->dataset().store().slots();
    if (slots == 0 || slots == options.mini_batch_size) return;
    throw Error(ErrorCode::invalid_option,
                "pieces of streams in " + std::to_string(slots) +
                    " slots need mini-batches of that size, not " + std::to_string(options.mini_batch_size),
                "set the mini-batch size to the number of slots");
  }

  int64_t epoch_size() const { return options.order.epoch_size(images->size()); }
  int64_t steps() const {
    if (options.partial == PartialBatch::discard) return epoch_size() / options.mini_batch_size;
    return steps_per_epoch(epoch_size(), options.mini_batch_size);
  }
  // If each read waits for a network, many parallel reads hide the wait; the store's number counts for all
  // workers.
  int64_t waiting_reads() const { return divided_up(images->parallel_reads(), share.size); }
  int64_t thread_count() const { return std::max(options.threads, waiting_reads()); }

  bool at_end() const { return broken || cursor.epoch >= options.epochs || steps() == 0; }
  bool has_piece() const {
    return std::any_of(fillings.begin(), fillings.end(),
                       [](const auto& filling) { return filling->next_piece < filling->pieces(); });
  }
  bool can_open() const { return !at_end() && static_cast<int64_t>(fillings.size()) < options.read_ahead; }

  void settle_cursor() {
    if (steps() == 0 || cursor.step < steps()) return;
    cursor = {cursor.epoch + cursor.step / steps(), cursor.step % steps()};
  }

  void advance() {
    const int64_t epoch = cursor.epoch;
    ++cursor.step;
    settle_cursor();
    if (cursor.epoch != epoch && !at_end()) order = options.order.of_epoch(images->size(), cursor.epoch);
  }

  std::shared_ptr<Filling> open_filling() const {
    const Range range = mini_batch_range(epoch_size(), options.mini_batch_size, cursor.step);
    auto filling = std::make_shared<Filling>();
    if (waiting_reads() > 0) filling->piece_samples = 1;
    Batch& batch = filling->batch;
    batch.cursor = cursor;
    batch.iteration = cursor.epoch * steps() + cursor.step;
    batch.ends_epoch = cursor.step + 1 == steps();
    batch.global_count = range.count();
    batch.shard_count = shards_of(options, range.count());
    batch.target_count = count_targets(range);
    const Range owned = owned_shards(options, batch.shard_count, share);
    if (owned.count() == 0) return filling;
    const int64_t begin =
        range.begin + shard_range(options, range.count(), batch.shard_count, owned.begin).begin;
    const int64_t end =
        range.begin + shard_range(options, range.count(), batch.shard_count, owned.end - 1).end;
    filling->samples.assign(order.begin() + begin, order.begin() + end);

    Shard whole = room_for(range, end - begin);
    whole.padded_left = format.padding == PaddingSide::left;
    if (!options.images_wanted) {
      whole.samples = at::empty({whole.count}, at::TensorOptions(at::kLong).pinned_memory(options.pinned));
      std::copy(filling->samples.begin(), filling->samples.end(), whole.samples.data_ptr<int64_t>());
    }
    filling->images = static_cast<uint8_t*>(whole.images.data_ptr());
    filling->target = whole.target.data_ptr<int64_t>();
    if (whole.mixed_target.defined()) {
      filling->mixed_target = whole.mixed_target.data_ptr<int64_t>();
      filling->target_share = whole.target_share.data_ptr<float>();
    }
    filling->sample_bytes = static_cast<int64_t>(whole.images.nbytes()) / whole.count;
    filling->targets = whole.target.numel() / whole.count;
    filling->pieces_left = filling->pieces();
    for (int64_t i = 0; whole.lengths.defined() && i < whole.count; ++i) {
      const int64_t index = filling->samples[static_cast<size_t>(i)];
      whole.lengths.data_ptr<int64_t>()[i] = steps_of(index);
      whole.continues.data_ptr<bool>()[i] = images->dataset().store().continues(index);
    }
    batch.shards = cut(whole, owned, options, batch);
    return filling;
  }

  int64_t steps_of(int64_t index) const { return images->dataset().store().image_size(index).width; }

  // Memory for `count` samples of the mini-batch at `range`. Its length is that of the longest sequence of
  // the whole mini-batch, not only of this worker's.
  Shard room_for(Range range, int64_t count) const {
    const auto host = at::TensorOptions().pinned_memory(options.pinned);
    Shard room{.count = count};
    if (format.kind == SampleKind::image) {
      const int64_t channels = options.images_wanted ? format.channels : 0;
      room.images = at::empty({count, channels, format.height, format.width}, host.dtype(at::kByte));
      room.target = at::empty({count}, host.dtype(at::kLong));
      if (options.augment.mixup > 0) {
        room.mixed_target = at::empty({count}, host.dtype(at::kLong));
        room.target_share = at::empty({count}, host.dtype(at::kFloat));
      }
      return room;
    }
    int64_t longest = std::max<int64_t>(options.least_time_steps, 1);
    for (int64_t i = range.begin; i < range.end; ++i)
      longest = std::max(longest, steps_of(order[static_cast<size_t>(i)]));
    room.images = at::empty({count, format.channels, longest}, host.dtype(at::kFloat));
    room.target = images->dataset().store().labels_time_steps()
                      ? at::full({count, longest}, -1, host.dtype(at::kLong))
                      : at::empty({count}, host.dtype(at::kLong));
    room.lengths = at::empty({count}, at::kLong);
    room.continues = at::empty({count}, at::kBool);
    return room;
  }

  int64_t count_targets(Range range) const {
    const Datastore& store = images->dataset().store();
    const bool of_steps = store.labels_time_steps();
    int64_t count = 0;
    for (int64_t i = range.begin; i < range.end; ++i) {
      const int64_t index = order[static_cast<size_t>(i)];
      const auto labels = store.time_step_labels(index);
      count += of_steps
                   ? std::count_if(labels.begin(), labels.end(), [](int64_t label) { return label >= 0; })
                   : store.label(index) >= 0;
    }
    return count;
  }

  // Under the lock: the next piece to read, of an open mini-batch or of a new one; none if there is none now.
  std::pair<std::shared_ptr<Filling>, int64_t> take_piece() {
    while (true) {
      for (const auto& filling : fillings) {
        if (filling->next_piece < filling->pieces()) return {filling, filling->next_piece++};
      }
      if (!can_open()) return {};
      try {
        fillings.push_back(open_filling());
        advance();
      } catch (...) {
        broken = std::current_exception();
      }
      changed.notify_all();
    }
  }

  // Under the lock: whether the result of next() is known.
  bool is_ready() const { return fillings.empty() ? at_end() : fillings.front()->pieces_left == 0; }

  void work(std::stop_token stop) {
    const StopScope scope(stop);
    std::unique_lock lock(mutex);
    while (changed.wait(lock, stop, [&] { return has_piece() || can_open(); }) && !stop.stop_requested()) {
      const auto [filling, piece] = take_piece();
      if (filling == nullptr) continue;
      lock.unlock();
      std::exception_ptr error;
      const int64_t error_at = read_piece(*filling, piece, stop, error);
      lock.lock();
      if (error && (!filling->error || error_at < filling->error_at)) {
        filling->error = error;
        filling->error_at = error_at;
      }
      if (--filling->pieces_left == 0) changed.notify_all();
    }
  }

  // The position of the sample that failed, if one did.
  int64_t read_piece(Filling& filling, int64_t piece, const std::stop_token& stop,
                     std::exception_ptr& error) const {
    const int64_t begin = piece * filling.piece_samples;
    const int64_t end = std::min(begin + filling.piece_samples, filling.count());
    for (int64_t i = begin; i < end && !stop.stop_requested(); ++i) {
      try {
        read_sample(filling, i);
      } catch (...) {
        error = std::current_exception();
        return i;
      }
    }
    return end;
  }

  void read_sample(Filling& filling, int64_t position) const {
    const int64_t index = filling.samples[static_cast<size_t>(position)];
    const int64_t bytes = filling.sample_bytes;
    const std::span<uint8_t> image(filling.images + position * bytes, static_cast<size_t>(bytes));
    const uint64_t seed =
        seed_of({static_cast<uint64_t>(options.order.seed), static_cast<uint64_t>(filling.batch.cursor.epoch),
                 static_cast<uint64_t>(index)});
    read_image(index, image, seed);
    if (images->dataset().store().labels_time_steps()) {
      const auto labels = images->dataset().store().time_step_labels(index);
      const int64_t before = images->format().padding == PaddingSide::left
                                 ? filling.targets - static_cast<int64_t>(labels.size())
                                 : 0;
      std::copy(labels.begin(), labels.end(), filling.target + position * filling.targets + before);
      return;
    }
    filling.target[position] = images->label(index);
    if (filling.mixed_target != nullptr) mix_sample(filling, position, image, seed);
  }

  void read_image(int64_t index, std::span<uint8_t> image, uint64_t seed) const {
    if (!options.images_wanted) return;
    if (!options.cut_out.empty()) {
      thread_local ThreadBuffer memory;
      const std::span<uint8_t> whole = memory.of(static_cast<size_t>(images->image_bytes()));
      images->read(index, whole);
      return options.augment.apply(whole, images->format(), image, format, seed);
    }
    images->read(index, image);
    if (options.augment.any()) options.augment.apply(image, format, seed);
  }

  // The other sample is augmented too, with random numbers of this sample.
  void mix_sample(Filling& filling, int64_t position, std::span<uint8_t> image, uint64_t seed) const {
    thread_local std::vector<uint8_t> other;
    const Mix mix = options.augment.draw_mix(images->size(), seed);
    other.resize(image.size());
    read_image(mix.other, other, seed_of({seed, static_cast<uint64_t>(mix.other)}));
    mix_in(image, other, mix.share);
    filling.mixed_target[position] = images->label(mix.other);
    filling.target_share[position] = static_cast<float>(mix.share) / 256;
  }
};

Shard joined(std::span<const Shard> shards) {
  const Shard& first = shards.front();
  Shard whole{.index = first.index};
  for (const Shard& shard : shards) {
    const auto follows = [&](const at::Tensor& tensor, const at::Tensor& begin) {
      return static_cast<const std::byte*>(tensor.const_data_ptr()) ==
             static_cast<const std::byte*>(begin.const_data_ptr()) +
                 whole.count * begin.stride(0) * begin.element_size();
    };
    const bool plain = !shard.input.defined() && !shard.lengths.defined() && !shard.samples.defined() &&
                       !shard.mixed_target.defined();
    if (!plain || !follows(shard.images, first.images) || !follows(shard.target, first.target)) {
      throw Error(ErrorCode::internal,
                  "shard " + std::to_string(shard.index) + " does not follow the previous one in memory");
    }
    whole.count += shard.count;
  }
  const auto longer = [&](const at::Tensor& tensor) {
    std::vector<int64_t> sizes = tensor.sizes().vec();
    sizes.front() = whole.count;
    return tensor.as_strided(sizes, tensor.strides());
  };
  whole.images = longer(first.images);
  whole.target = longer(first.target);
  return whole;
}

MiniBatchQueue::MiniBatchQueue(std::shared_ptr<const ImageSet> images, Share share, QueueOptions options)
    : state_(std::make_unique<State>(std::move(images), share, std::move(options))) {}

MiniBatchQueue::MiniBatchQueue(const Dataset& dataset, Share share, QueueOptions options) {
  checked(options);
  const at::Device device = resolve_device(options.output, share);
  state_ = std::make_unique<State>(images_of(dataset, share, options), share, std::move(options));
  state_->output_device = device;
}

MiniBatchQueue::~MiniBatchQueue() {
  // All threads get the stop request before the first one is joined.
  for (std::jthread& thread : state_->threads) thread.request_stop();
}

std::optional<Batch> MiniBatchQueue::next(std::stop_token stop) {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  if (!state.changed.wait(lock, stop, [&] { return state.is_ready(); }) || stop.stop_requested())
    return std::nullopt;
  if (state.fillings.empty()) {
    if (state.broken) std::rethrow_exception(state.broken);
    return std::nullopt;
  }
  const std::shared_ptr<Filling> filling = std::move(state.fillings.front());
  state.fillings.pop_front();
  state.changed.notify_all();
  lock.unlock();
  const Cursor cursor = filling->batch.cursor;
  return with_context(
      [&] {
        return "while filling mini-batch " + std::to_string(cursor.step + 1) + " of epoch " +
               std::to_string(cursor.epoch + 1);
      },
      [&]() -> std::optional<Batch> {
        if (filling->error) std::rethrow_exception(filling->error);
        if (state.output_device) {
          if (state.options.output.collate) filling->batch.target_count = filling->batch.global_count;
          const auto classes = static_cast<int64_t>(state.images->dataset().classes().size());
          for (Shard& shard : filling->batch.shards)
            give_input(shard, state.options.output, *state.output_device, classes);
        }
        return std::move(filling->batch);
      });
}

bool MiniBatchQueue::has_data(std::stop_token stop) {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  if (!state.changed.wait(lock, stop, [&] { return state.is_ready(); }) || stop.stop_requested())
    return false;
  return !state.fillings.empty() || state.broken;
}

}  // namespace lockstep::data
