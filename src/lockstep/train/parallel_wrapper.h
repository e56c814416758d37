// Averaging mode by the words of Deeplearning4j's ParallelWrapper (ParallelWrapper.java): thin over fit with Options::exchange average.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/data/collect.h"
#include "lockstep/io/event.h"
#include "lockstep/train/fit.h"

namespace lockstep::train {

/// Trains replicas of a network side by side and averages them every few mini-batches. Made by ParallelWrapper::Builder.
class ParallelWrapper {
 public:
  class Builder;

  ParallelWrapper(const ParallelWrapper&) = delete;
  ParallelWrapper& operator=(const ParallelWrapper&) = delete;

  /// Trains as train::fit does, from the network's first weights. One fit at a time.
  Result fit(const data::Dataset& dataset);

  /// The same on mini-batches of the caller's, which are taken into memory before training begins: mini-batch n of each pass goes to replica
  /// n mod workers. Options::max_epochs passes, one when that is 0; nothing is shuffled or held out. Throws as data::collect.
  Result fit(const data::NextMiniBatch& next);

  /// The same on what two iterators over data::MiniBatch enclose.
  template <class Iterator>
  Result fit(Iterator begin, Iterator end) {
    return fit(data::NextMiniBatch([&] { return begin == end ? std::nullopt : std::optional<data::MiniBatch>(*begin++); }));
  }

  /// Ends the fit under way after its step, with a last average that fit returns. From any thread.
  void stop_fit() { stop_ = true; }

  const Options& options() const { return options_; }

 private:
  ParallelWrapper(nn::Network network, Options options, std::vector<io::Observer> listeners);
  Result fit(const data::Dataset& dataset, const Options& options);

  nn::Network network_;
  Options options_;
  std::vector<io::Observer> listeners_;
  std::atomic<bool> stop_{false};
};

/// Each call gives the builder back, so that calls chain.
class ParallelWrapper::Builder {
 public:
  /// What is not about averaging (optimizer, mini-batch size of each replica, seed, epochs, outer optimizer, ...) comes from `options`.
  explicit Builder(nn::Network network, Options options = {});

  /// Replicas. They decide the weights; the threads that run them (Options::workers) do not. Default: the GPUs, else the cores, at least 2.
  /// Throws invalid_option under 1.
  Builder& workers(int64_t count);

  /// Mini-batches read ahead, over all replicas; at least 1. Default 16.
  Builder& prefetch_buffer(int64_t mini_batches);

  /// Mini-batches of each replica from one average to the next; at least 1. Default 1.
  Builder& averaging_frequency(int64_t mini_batches);

  /// Whether the optimizer's state is averaged too. Default yes.
  Builder& average_updaters(bool average);

  /// Prints progress on standard output, with the score and the time of each averaging. Default no.
  Builder& report_score_after_averaging(bool report);

  /// Called with each event of fit, between steps, after the listeners before; one that answers stop ends the fit.
  Builder& listener(io::Observer listener);

  ParallelWrapper build() const { return {network_, options_, listeners_}; }

 private:
  nn::Network network_;
  Options options_;
  std::vector<io::Observer> listeners_;
};

}  // namespace lockstep::train
