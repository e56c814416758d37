// Averaging mode by the words of Deeplearning4j's ParallelWrapper (ParallelWrapper.java): thin over fit with
// Options::exchange average.
#pragma once

#include <atomic>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/data/collect.h"
#include "lockstep/data/mini_batch_stream.h"
#include "lockstep/io/event.h"
#include "lockstep/train/run/fit.h"

namespace lockstep::train {

/// Trains replicas of a network side by side and averages them every few mini-batches. Made by
/// ParallelWrapper::Builder.
///
/// A wrapper is one training, and each fit goes on where the one before ended, so Deeplearning4j's loop
/// learns further with every pass:
///   for (int epoch = 0; epoch < 10; ++epoch) {
///     images.reset();
///     wrapper.fit([&] { return images.next(); });
///   }
/// What goes on: the weights, the running statistics of batch norms, the optimizer's state of all replicas,
/// the outer optimizer, the number of steps and passes (by which the order, augmentation and dropout draw and
/// the learning rate falls), the best accuracy and the patience, and the run folder. So k fits of one pass
/// give the bits of one fit of k passes, where Options::averaging_frequency divides the steps of a pass: each
/// fit ends with an average. A fit may have other data than the one before, of the same classes and size. A
/// fit that throws leaves the training as it was before it. A new wrapper begins anew, from the network's
/// first weights (or Options::weights) and in another run folder.
///
/// Options::max_epochs is the passes of each fit, max_steps and max_time are for all fits together. A cosine
/// schedule falls to 0 over max_steps, and without it over the first fit; a fit after that throws
/// invalid_option. Where there is more than one fit, set max_steps, or another schedule.
class ParallelWrapper {
 public:
  class Builder;

  ParallelWrapper(const ParallelWrapper&) = delete;
  ParallelWrapper& operator=(const ParallelWrapper&) = delete;

  /// Trains as train::fit does. One fit at a time.
  Result fit(const data::Dataset& dataset);

  /// The same on mini-batches of the caller's, u8 or float32: mini-batch n of a pass goes to replica n mod
  /// workers. Nothing is shuffled or held out. They are streamed: a thread calls `next` while fit blocks, no
  /// more than the prefetch buffer ahead, and what was trained on is freed. A fit that ends early has taken
  /// up to so many too many. A pass ends where `next` gives nothing. Options::max_epochs passes, one when
  /// that is 0; in several `next` begins anew when it is called after its end. Throws as
  /// data::MiniBatchStream.
  Result fit(const data::NextMiniBatch& next) { return fit_stream(next, /*mini_batches=*/0); }

  /// The same on what two iterators over data::MiniBatch enclose. Forward iterators begin anew by themselves,
  /// and their distance says how many steps there are.
  template <class Iterator>
  Result fit(Iterator begin, Iterator end) {
    int64_t count = 0;
    if constexpr (std::forward_iterator<Iterator>) count = static_cast<int64_t>(std::distance(begin, end));
    Iterator at = begin;
    return fit_stream(
        [&]() -> std::optional<data::MiniBatch> {
          if (at != end) return *at++;
          if constexpr (std::forward_iterator<Iterator>) at = begin;
          return std::nullopt;
        },
        count);
  }

  /// Ends the fit under way after its step, with a last average that fit returns. From any thread.
  void stop_fit() { stop_ = true; }

  const Options& options() const { return options_; }

 private:
  ParallelWrapper(nn::Network network, Options options, int64_t classes, std::vector<io::Observer> listeners);
  Result fit_stream(const data::NextMiniBatch& next, int64_t mini_batches);
  Result fit_one(TrainingRequest request, const Options& options);

  nn::Network network_;
  Options options_;
  int64_t classes_;  // 0: the first stream says it
  std::vector<io::Observer> listeners_;
  std::shared_ptr<Standing> standing_;
  int64_t epochs_ = 0;  // of all fits
  std::atomic<bool> stop_{false};
};

/// Each call gives the builder back, so that calls chain.
class ParallelWrapper::Builder {
 public:
  /// What is not about averaging (optimizer, mini-batch size of each replica, seed, epochs, outer optimizer,
  /// ...) comes from `options`.
  explicit Builder(nn::Network network, Options options = {});

  /// Replicas. They decide the weights; the threads that run them (Options::workers) do not. Default: the
  /// GPUs, else the cores, at least 2. Throws invalid_option under 1.
  Builder& workers(int64_t count);

  /// Mini-batches read ahead, over all replicas, and of an iterator held in memory; at least 1, rounded up to
  /// one for each replica. Default 16.
  Builder& prefetch_buffer(int64_t mini_batches);

  /// Mini-batches of each replica from one average to the next; at least 1. Default 1.
  Builder& averaging_frequency(int64_t mini_batches);

  /// PyTorch's PeriodicModelAverager(period, warmup_steps): in the first `steps` steps the replicas'
  /// gradients are averaged, as DistributedDataParallel does, and the replicas after step `steps` + 1 and
  /// every averaging_frequency steps from there. Default 0: replicas at the multiples of averaging_frequency.
  Builder& averaging_warmup_steps(int64_t steps);

  /// Classes of an iterator's labels, 0 to `count` - 1. Default: the largest label in the mini-batches that
  /// the first fit reads ahead; a larger one after them is an error.
  Builder& classes(int64_t count);

  /// Whether the optimizer's state is averaged too. Default yes.
  Builder& average_updaters(bool average);

  /// Prints progress on standard output, with the score and the time of each averaging. Default no.
  Builder& report_score_after_averaging(bool report);

  /// Called with each event of fit, between steps, after the listeners before; one that answers stop ends the
  /// fit.
  Builder& listener(io::Observer listener);

  ParallelWrapper build() const { return {network_, options_, classes_, listeners_}; }

 private:
  nn::Network network_;
  Options options_;
  int64_t classes_ = 0;
  std::vector<io::Observer> listeners_;
};

}  // namespace lockstep::train
