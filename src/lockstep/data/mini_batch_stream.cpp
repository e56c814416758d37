#include "lockstep/data/mini_batch_stream.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include <ATen/ATen.h>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/seed.h"
#include "lockstep/base/stop_scope.h"
#include "lockstep/data/internal/mini_batch_check.h"

namespace lockstep::data {
namespace {

class Outline : public Datastore {
 public:
  Outline(ImageSize size, int64_t count, int64_t classes) : size_(size), count_(count) {
    for (int64_t label = 0; label < classes; ++label) classes_.push_back(std::to_string(label));
  }
  int64_t size() const override { return count_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t index) const override { return index % static_cast<int64_t>(classes_.size()); }
  std::string source(int64_t index) const override { return "mini-batches#" + std::to_string(index); }
  ImageSize image_size(int64_t) const override { return size_; }
  void read_to(int64_t, const PixelSink& sink) const override { std::ranges::fill(sink(size_), uint8_t{0}); }
  bool in_memory() const override { return true; }
  uint64_t listing_hash() const override {
    const std::array<int64_t, 4> numbers{size_.channels, size_.height, size_.width, count_};
    return hash_of(std::as_bytes(std::span(numbers)));
  }

 private:
  ImageSize size_;
  int64_t count_;
  std::vector<std::string> classes_;
};

}  // namespace

void check_mini_batch(const MiniBatch& batch, int64_t number, const BatchesBefore& before) {
  const auto refuse = [&](const std::string& why, const std::string& hint = {}) {
    throw Error(ErrorCode::invalid_option, "mini-batch " + std::to_string(number) + " " + why, hint);
  };
  if (!batch.images.defined() || !batch.labels.defined()) refuse("has no images or no labels");
  const at::Tensor& images = batch.images;
  const std::string shown = std::string(c10::toString(images.scalar_type())) + " " + c10::str(images.sizes());
  const bool bytes = images.scalar_type() == at::kByte, floats = images.scalar_type() == at::kFloat;
  if (images.dim() != 4 || !(bytes || floats) || !images.device().is_cpu() || images.numel() == 0 ||
      (bytes && images.size(1) != 1 && images.size(1) != 3)) {
    refuse("has images of " + shown, "return [b,C,H,W] on the CPU: bytes with 1 or 3 channels, or float32");
  }
  if (batch.labels.dim() != 1 || batch.labels.size(0) != images.size(0) ||
      !at::isIntegralType(batch.labels.scalar_type(), /*includeBool=*/false)) {
    refuse("has labels of " + std::string(c10::toString(batch.labels.scalar_type())) + " " +
               c10::str(batch.labels.sizes()) + " for " + counted(images.size(0), "image"),
           "return one integer per image");
  }
  if (batch.labels.min().item<int64_t>() < 0) refuse("has a negative label");
  if (number == 1) return;
  if (ImageSize{images.size(1), images.size(2), images.size(3)} != before.size)
    refuse("has images of a different size than the first one");
  if (images.scalar_type() != before.type)
    refuse("has images of " + shown + ", which differ from those of the first one");
  if (before.count % before.mini_batch_size != 0 || images.size(0) > before.mini_batch_size)
    refuse("or the previous one differs in size from the first one; only the last one may be smaller");
}

struct MiniBatchStream::State {
  const NextMiniBatch give;
  const StreamOptions options;

  // Used only by the reader thread.
  BatchesBefore before;
  int64_t number = 0;  // of the mini-batch that is being read, from 1

  std::mutex mutex;
  std::condition_variable_any changed;
  // Everything below is used under the mutex.
  std::deque<MiniBatch> buffer;
  bool ended = false;
  std::exception_ptr error;
  int64_t classes = 0;  // exclusive limit of the labels, once the first mini-batches are read ahead; 0 before
  int64_t round = -1;   // the round that workers have, or are taking
  Batch taken;          // the whole round
  ImageSize size;
  int64_t mini_batch_size = 0;
  bool floats = false;
  std::jthread reader;  // last member, so that the thread ends before what it uses

  State(NextMiniBatch next, StreamOptions chosen) : give(std::move(next)), options(std::move(chosen)) {}

  // One more than the rounds need: whether a round is the last one is known only when nothing follows.
  size_t capacity() const {
    return static_cast<size_t>(options.replicas * divided_up(options.read_ahead, options.replicas) + 1);
  }
  bool is_over() const { return ended || error; }

  void work(const std::stop_token& stop) {
    const StopScope scope(stop);
    std::unique_lock lock(mutex);
    while (changed.wait(lock, stop, [&] { return buffer.size() < capacity(); }) && !stop.stop_requested() &&
           !is_over()) {
      const int64_t most = classes;
      lock.unlock();
      std::optional<MiniBatch> batch;
      std::exception_ptr failure;
      try {
        batch = read(most);
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      error = failure;
      ended = !failure && !batch;
      if (batch) buffer.push_back(std::move(*batch));
      changed.notify_all();
    }
  }

  // The program may reuse its memory immediately.
  std::optional<MiniBatch> read(int64_t most_classes) {
    ++number;
    std::optional<MiniBatch> batch = with_context(
        [&] { return "while mini-batch " + std::to_string(number) + " was read from the iterator"; },
        [&] { return give(); });
    if (!batch) return batch;
    check_mini_batch(*batch, number, before);
    at::Tensor images = batch->images.clone(at::MemoryFormat::Contiguous),
               labels = batch->labels.to(at::kLong).contiguous().clone();
    if (const int64_t label = labels.max().item<int64_t>(); most_classes > 0 && label >= most_classes) {
      throw Error(
          ErrorCode::invalid_option,
          "mini-batch " + std::to_string(number) + " has the label " + std::to_string(label) +
              ", but there are " + std::to_string(most_classes) + " classes, counted from 0",
          "set the number of classes: .classes(" + std::to_string(label + 1) + ") in the builder, or more");
    }
    augment(images);
    if (number == 1)
      before = {0, images.size(0), {images.size(1), images.size(2), images.size(3)}, images.scalar_type()};
    before.count += images.size(0);
    return MiniBatch{std::move(images), std::move(labels)};
  }

  void augment(at::Tensor& images) const {
    if (!options.augment.any()) return;
    const auto refuse = [](const std::string& why) {
      throw Error(ErrorCode::invalid_option, why, "remove --augment, or augment the images in the iterator");
    };
    if (images.scalar_type() != at::kByte)
      refuse("cannot augment float32 images from an iterator, only u8 images");
    if (options.augment.random_crop || options.augment.mixup > 0)
      refuse(
          "--augment random-crop and mixup do not work with an iterator, because they need other images or "
          "larger ones");
    const ImageFormat format{images.size(1), images.size(2), images.size(3)};
    for (int64_t i = 0; i < images.size(0); ++i) {
      const uint64_t seed =
          seed_of({static_cast<uint64_t>(options.seed), static_cast<uint64_t>(options.epoch),
                   static_cast<uint64_t>(before.count + i)});
      options.augment.apply({images.mutable_data_ptr<uint8_t>() + i * format.size().bytes(),
                             static_cast<size_t>(format.size().bytes())},
                            format, seed);
    }
  }

  // Before the first round.
  void look_ahead() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return is_over() || buffer.size() == capacity(); });
    if (buffer.empty() && error) std::rethrow_exception(error);
    if (buffer.empty())
      throw Error(ErrorCode::invalid_option, "there are no mini-batches to train on",
                  "reset an iterator that has ended before the next fit");
    const at::Tensor& first = buffer.front().images;
    size = {first.size(1), first.size(2), first.size(3)};
    mini_batch_size = first.size(0);
    floats = first.scalar_type() == at::kFloat;
    int64_t seen = 0;
    for (const MiniBatch& batch : buffer) seen = std::max(seen, batch.labels.max().item<int64_t>() + 1);
    classes = options.classes > 0 ? options.classes : seen;
  }

  // Under the lock: whether the next round is known.
  bool can_open() const { return is_over() || buffer.size() > static_cast<size_t>(options.replicas); }

  // Under the lock: false after the last mini-batch.
  bool open_round() {
    const auto most = static_cast<size_t>(options.replicas);
    if (error && buffer.size() <= most) std::rethrow_exception(error);
    if (buffer.empty()) return false;
    ++round;
    taken = {};
    taken.cursor = {options.epoch, round};
    while (!buffer.empty() && taken.shards.size() < most) {
      MiniBatch batch = std::move(buffer.front());
      buffer.pop_front();
      const int64_t count = batch.images.size(0), first = taken.global_count;
      taken.global_count += count;
      if (count == 1 && mini_batch_size > 1 && !taken.shards.empty()) {
        Shard& last = taken.shards.back();
        last.images = at::cat({last.images, batch.images});
        last.target = at::cat({last.target, batch.labels});
        ++last.count;
      } else {
        taken.shards.push_back({.index = static_cast<int64_t>(taken.shards.size()),
                                .first = first,
                                .images = std::move(batch.images),
                                .target = std::move(batch.labels),
                                .count = count});
      }
    }
    taken.shard_count = static_cast<int64_t>(taken.shards.size());
    taken.target_count = taken.global_count;
    taken.iteration = round;
    taken.ends_epoch = ended && buffer.empty();
    changed.notify_all();
    return true;
  }
};

MiniBatchStream::MiniBatchStream(NextMiniBatch next, StreamOptions options)
    : state_(std::make_unique<State>(std::move(next), std::move(options))) {
  state_->classes = state_->options.classes;
  state_->reader = std::jthread([state = state_.get()](const std::stop_token& stop) { state->work(stop); });
  state_->look_ahead();
}

MiniBatchStream::~MiniBatchStream() = default;

Dataset MiniBatchStream::outline() const {
  return Dataset(std::make_shared<Outline>(state_->size, state_->mini_batch_size, classes()));
}
bool MiniBatchStream::gives_floats() const { return state_->floats; }
int64_t MiniBatchStream::mini_batches() const { return state_->options.mini_batches; }

int64_t MiniBatchStream::classes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->classes;
}

std::optional<Batch> MiniBatchStream::next(int64_t round, Share worker, int64_t ranks, std::stop_token stop) {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  if (round > state.round) {
    if (!state.changed.wait(lock, stop, [&] { return round <= state.round || state.can_open(); }) ||
        stop.stop_requested())
      return std::nullopt;
    if (round > state.round && !state.open_round()) return std::nullopt;
  }
  const Range own = Deal{ranks, worker.size}.of_worker(state.options.replicas, worker.rank);
  Batch batch = state.taken;
  const auto first = batch.shards.begin();
  batch.shards = {first + std::min(own.begin, batch.shard_count),
                  first + std::min(own.end, batch.shard_count)};
  return batch;
}

}  // namespace lockstep::data
