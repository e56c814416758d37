#include "lockstep/data/mini_batch_queue.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include <ATen/ATen.h>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/stop_scope.h"
#include "lockstep/data/internal/mini_batch_filler.h"
#include "lockstep/data/survey.h"
#include "lockstep/device/inventory.h"

namespace lockstep::data {
namespace {

// The queue of a Dataset makes its images itself.
std::shared_ptr<const ImageSet> images_of(const Dataset& dataset, Share share, const QueueOptions& options) {
  if (dataset.empty())
    throw Error(ErrorCode::invalid_option, "a mini-batch queue needs a dataset with at least one sample");
  if (options.partial == PartialBatch::discard && dataset.size() < options.mini_batch_size) {
    throw Error(ErrorCode::invalid_option,
                "a dataset of " + counted(dataset.size(), "sample") + " has no complete mini-batch of " +
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

// The threads read pieces of the mini-batches that are open.
struct MiniBatchQueue::State {
  struct OpenMiniBatch {
    std::shared_ptr<Filling> filling;
    int64_t next_piece = 0;
    int64_t pieces_left = 0;
    FillError error = {};  // of the first sample that failed, which is reported
  };

  const MiniBatchFiller filler;
  std::optional<at::Device> output_device = {};  // for a queue that also fills Shard::input

  std::mutex mutex;
  std::condition_variable_any changed;
  // Everything below is used under the mutex, except the memory of pieces that a thread has taken.
  std::deque<std::shared_ptr<OpenMiniBatch>> open;  // in order; the front is returned next
  Cursor cursor;                                    // position of the next mini-batch to open
  std::vector<int64_t> order;                       // order of cursor.epoch
  std::exception_ptr broken;                        // why no further mini-batch can be opened
  std::vector<std::jthread> threads;  // last member, so that the threads end before what they use

  State(std::shared_ptr<const ImageSet> images, Share share, QueueOptions chosen)
      : filler(std::move(images), share, std::move(chosen)), cursor(filler.options().start) {
    settle_cursor();
    if (!at_end()) order = filler.order_of(cursor.epoch);
    for (int64_t i = 0; i < filler.reading_threads(); ++i)
      threads.emplace_back([this](std::stop_token stop) { work(stop); });
  }

  bool at_end() const { return broken || cursor.epoch >= filler.options().epochs || filler.steps() == 0; }
  bool has_piece() const {
    return std::any_of(open.begin(), open.end(),
                       [](const auto& one) { return one->next_piece < one->filling->pieces(); });
  }
  bool can_open() const {
    return !at_end() && static_cast<int64_t>(open.size()) < filler.options().read_ahead;
  }

  void settle_cursor() {
    const int64_t steps = filler.steps();
    if (steps == 0 || cursor.step < steps) return;
    cursor = {cursor.epoch + cursor.step / steps, cursor.step % steps};
  }

  void advance() {
    const int64_t epoch = cursor.epoch;
    ++cursor.step;
    settle_cursor();
    if (cursor.epoch != epoch && !at_end()) order = filler.order_of(cursor.epoch);
  }

  void open_next() {
    std::shared_ptr<Filling> filling = filler.open(cursor, order);
    const int64_t pieces = filling->pieces();
    if (filler.options().images_wanted) filler.images().expect(filling->samples);
    open.push_back(
        std::make_shared<OpenMiniBatch>(OpenMiniBatch{.filling = std::move(filling), .pieces_left = pieces}));
    advance();
  }

  // Under the lock: the next piece to read, of an open mini-batch or of a new one; none if there is none now.
  std::pair<std::shared_ptr<OpenMiniBatch>, int64_t> take_piece() {
    while (true) {
      for (const auto& one : open) {
        if (one->next_piece < one->filling->pieces()) return {one, one->next_piece++};
      }
      if (!can_open()) return {};
      try {
        open_next();
      } catch (...) {
        broken = std::current_exception();
      }
      changed.notify_all();
    }
  }

  // Under the lock: whether the result of next() is known.
  bool is_ready() const { return open.empty() ? at_end() : open.front()->pieces_left == 0; }

  void work(std::stop_token stop) {
    const StopScope scope(stop);
    std::unique_lock lock(mutex);
    while (changed.wait(lock, stop, [&] { return has_piece() || can_open(); }) && !stop.stop_requested()) {
      const auto [one, piece] = take_piece();
      if (one == nullptr) continue;
      lock.unlock();
      const FillError found = filler.read_piece(*one->filling, piece, stop);
      lock.lock();
      if (found.error && (!one->error.error || found.position < one->error.position)) one->error = found;
      if (--one->pieces_left == 0) changed.notify_all();
    }
  }

  // A queue of a Dataset also makes the inputs.
  Batch finished(OpenMiniBatch& one) const {
    if (one.error.error) std::rethrow_exception(one.error.error);
    Batch& batch = one.filling->batch;
    if (output_device) {
      const ShardOutput& output = filler.options().output;
      if (output.collate) batch.target_count = batch.global_count;
      const auto classes = static_cast<int64_t>(filler.images().dataset().classes().size());
      for (Shard& shard : batch.shards) give_input(shard, output, *output_device, classes);
    }
    return std::move(batch);
  }
};

MiniBatchQueue::MiniBatchQueue(std::shared_ptr<const ImageSet> images, Share share, QueueOptions options)
    : state_(std::make_unique<State>(std::move(images), share, std::move(options))) {}

MiniBatchQueue::MiniBatchQueue(const Dataset& dataset, Share share, QueueOptions options) {
  check_queue_options(options);
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
  if (state.open.empty()) {
    if (state.broken) std::rethrow_exception(state.broken);
    return std::nullopt;
  }
  const std::shared_ptr<State::OpenMiniBatch> first = std::move(state.open.front());
  state.open.pop_front();
  state.changed.notify_all();
  lock.unlock();
  const Cursor cursor = first->filling->batch.cursor;
  return with_context(
      [&] {
        const QueueOptions& options = state.filler.options();
        // One pass in order is no epoch: validations and predictions have none.
        const bool has_epochs = options.epochs > 1 || options.order.shuffle != Shuffle::never;
        return "while filling mini-batch " + std::to_string(cursor.step + 1) +
               (has_epochs ? " of epoch " + std::to_string(cursor.epoch + 1) : "");
      },
      [&]() -> std::optional<Batch> { return state.finished(*first); });
}

bool MiniBatchQueue::has_data(std::stop_token stop) {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  if (!state.changed.wait(lock, stop, [&] { return state.is_ready(); }) || stop.stop_requested())
    return false;
  return !state.open.empty() || state.broken;
}

}  // namespace lockstep::data
