// Averaging mode with the interface of Deeplearning4j's ParallelWrapper (ParallelWrapper.java): a thin layer
// over fit with Options::exchange average.
#pragma once

#include <atomic>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/data/collect.h"
#include "lockstep/data/mini_batch_stream.h"
#include "lockstep/record/event.h"
#include "lockstep/train/run/fit.h"

namespace lockstep::train {

/// Trains replicas of a network in parallel and averages them every few mini-batches. Made by
/// ParallelWrapper::Builder.
///
/// A wrapper is one training, and each fit continues where the previous one ended, as in Deeplearning4j's
/// loop:
///   for (int epoch = 0; epoch < 10; ++epoch) {
///     images.reset();
///     wrapper.fit([&] { return images.next(); });
///   }
/// A fit continues with the weights, the running statistics of batch norms, the optimizer's state of all
/// replicas, the outer optimizer, the number of steps and passes (on which the order, augmentation, dropout
/// and the learning rate depend), the best accuracy and the patience, and the run folder. So k fits of one
/// pass have the bits of one fit of k passes if Options::averaging_frequency divides the steps of a pass,
/// because each fit ends with an average. A fit may have other data than the previous one, of the same
/// classes and size. A fit that throws leaves the training unchanged. A new wrapper starts from the network's
/// first weights (or Options::weights), in another run folder.
///
/// Options::max_epochs is the number of passes of each fit; max_steps and max_time are for all fits together.
/// A cosine schedule falls to 0 over max_steps, or, without it, over the first fit; a fit after that throws
/// invalid_option. For more than one fit, set max_steps or another schedule.
class ParallelWrapper {
 public:
  class Builder;

  ParallelWrapper(const ParallelWrapper&) = delete;
  ParallelWrapper& operator=(const ParallelWrapper&) = delete;

  /// Trains as train::fit does. One fit at a time.
  Result fit(const data::Dataset& dataset);

  /// The same with the caller's mini-batches, u8 or float32: mini-batch n of a pass goes to replica n mod
  /// workers. Nothing is shuffled or held out. Mini-batches are streamed: a thread calls `next` while fit
  /// blocks, at most the prefetch buffer ahead, and used ones are freed. A fit that ends early has taken up
  /// to that many too many. A pass ends when `next` returns nothing. There are Options::max_epochs passes,
  /// one if that is 0; `next` starts again when it is called after its end. Throws as data::MiniBatchStream.
  Result fit(const data::NextMiniBatch& next) { return fit_stream(next, /*mini_batches=*/0); }

  /// The same with the range between two iterators over data::MiniBatch. With forward iterators, passes start
  /// again automatically, and the number of steps is known.
  template <class Iterator>
  Result fit(Iterator begin, Iterator end) {
    int64_t count = 0;
    if constexpr (std::forward_iterator<Iterator>) count = static_cast<int64_t>(std::distance(begin, end));
    Iterator position = begin;
    return fit_stream(
        [&]() -> std::optional<data::MiniBatch> {
          if (position != end) return *position++;
          if constexpr (std::forward_iterator<Iterator>) position = begin;
          return std::nullopt;
        },
        count);
  }

  /// Ends the current fit after its step, with a last average, which fit returns. Any thread may call it.
  void stop_fit() { stop_ = true; }

  const Options& options() const { return options_; }

 private:
  ParallelWrapper(nn::Network network, Options options, int64_t classes,
                  std::vector<record::Observer> listeners);
  Result fit_stream(const data::NextMiniBatch& next, int64_t mini_batches);
  Result fit_passes(const data::NextMiniBatch& next, int64_t mini_batches);
  Result fit_one(TrainingRequest request, const Options& options);

  nn::Network network_;
  Options options_;
  int64_t classes_;  // 0: determined by the first stream
  std::vector<record::Observer> listeners_;
  std::shared_ptr<Standing> standing_;
  int64_t epochs_ = 0;  // of all fits
  std::atomic<bool> stop_{false};
};

/// Each call returns the builder, so calls can be chained.
class ParallelWrapper::Builder {
 public:
  /// `options` has everything that is not set below: optimizer, mini-batch size of each replica, seed,
  /// epochs, outer optimizer, ...
  explicit Builder(nn::Network network, Options options = {});

  /// Number of replicas. It decides the weights; the number of threads that run them (Options::workers) does
  /// not. Default: the number of GPUs, or of cores without a GPU, at least 2. Throws invalid_option if
  /// under 1.
  Builder& workers(int64_t count);

  /// Number of mini-batches that are read ahead, over all replicas; at least 1, for an iterator rounded up to
  /// whole rounds of one for each replica. Default 16.
  Builder& prefetch_buffer(int64_t mini_batches);

  /// Number of mini-batches of each replica from one average to the next; at least 1. Default 1.
  Builder& averaging_frequency(int64_t mini_batches);

  /// As PyTorch's PeriodicModelAverager(period, warmup_steps): in the first `steps` steps the replicas'
  /// gradients are averaged, as by DistributedDataParallel. The replicas are averaged after step `steps` + 1
  /// and then every averaging_frequency steps. Default 0: replicas are averaged at the multiples of
  /// averaging_frequency.
  Builder& averaging_warmup_steps(int64_t steps);

  /// Number of classes of an iterator's labels, which are 0 to `count` - 1. By default the largest label in
  /// the mini-batches that the first fit reads ahead determines it; a larger label after them is an error.
  Builder& classes(int64_t count);

  /// Whether the optimizer's state is averaged too. Default yes.
  Builder& average_updaters(bool average);

  /// Prints progress on standard output, with the score and the time of each averaging. Default no.
  Builder& report_score_after_averaging(bool report);

  /// Called with each event of fit, between steps, after the listeners that were added earlier. If one
  /// returns stop, the fit ends.
  Builder& listener(record::Observer listener);

  ParallelWrapper build() const { return {network_, options_, classes_, listeners_}; }

 private:
  nn::Network network_;
  Options options_;
  int64_t classes_ = 0;
  std::vector<record::Observer> listeners_;
};

}  // namespace lockstep::train
