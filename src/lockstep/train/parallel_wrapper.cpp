#include "lockstep/train/parallel_wrapper.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/device/inventory.h"

namespace lockstep::train {
namespace {

// The defaults of ParallelWrapper.Builder.
constexpr int64_t kPrefetchBuffer = 16;
constexpr int64_t kFewestWorkers = 2;

int64_t at_least_one(int64_t value, const char* what) {
  if (value < 1) throw Error(ErrorCode::invalid_option, std::string("a ParallelWrapper cannot have ") + what + " of " + std::to_string(value) + ": it must be at least 1");
  return value;
}

}  // namespace

ParallelWrapper::Builder::Builder(nn::Network network, Options options) : network_(std::move(network)), options_(std::move(options)) {
  options_.exchange = ExchangeKind::average;
  if (options_.prefetch == 0) options_.prefetch = kPrefetchBuffer;
  if (options_.shards > 0) return;
  const device::Inventory inventory = device::inspect();
  const auto devices = inventory.gpus.empty() ? inventory.cores : static_cast<int64_t>(inventory.gpus.size());
  options_.shards = std::max(kFewestWorkers, devices);
}

ParallelWrapper::Builder& ParallelWrapper::Builder::workers(int64_t count) {
  options_.shards = at_least_one(count, "workers");
  return *this;
}

ParallelWrapper::Builder& ParallelWrapper::Builder::prefetch_buffer(int64_t mini_batches) {
  options_.prefetch = at_least_one(mini_batches, "a prefetch buffer");
  return *this;
}

ParallelWrapper::Builder& ParallelWrapper::Builder::averaging_frequency(int64_t mini_batches) {
  options_.averaging_frequency = at_least_one(mini_batches, "an averaging frequency");
  return *this;
}

ParallelWrapper::Builder& ParallelWrapper::Builder::average_updaters(bool average) {
  options_.average_updaters = average;
  return *this;
}

ParallelWrapper::Builder& ParallelWrapper::Builder::report_score_after_averaging(bool report) {
  options_.report_score_after_averaging = report;
  return *this;
}

ParallelWrapper::Builder& ParallelWrapper::Builder::listener(io::Observer listener) {
  listeners_.push_back(std::move(listener));
  return *this;
}

ParallelWrapper::ParallelWrapper(nn::Network network, Options options, std::vector<io::Observer> listeners)
    : network_(std::move(network)), options_(std::move(options)), listeners_(std::move(listeners)) {}

Result ParallelWrapper::fit(const data::Dataset& dataset) { return fit(dataset, options_); }

Result ParallelWrapper::fit(const data::NextMiniBatch& next) {
  const data::Collected collected = data::collect(next);
  Options options = options_;
  options.mini_batch_size = collected.mini_batch_size;
  options.max_epochs = std::max<int64_t>(1, options.max_epochs);
  options.shuffle = data::Shuffle::never;
  options.validation_split = 0;
  options.validation_count_per_class = 0;
  return fit(collected.dataset, options);
}

Result ParallelWrapper::fit(const data::Dataset& dataset, const Options& options) {
  stop_ = false;
  Job job;
  job.dataset = dataset;
  job.network = network_;
  job.console = options.report_score_after_averaging;
  job.observer = [this](const io::Event& event) {
    io::Control control = io::Control::go;
    for (const io::Observer& listener : listeners_) {
      if (listener(event) == io::Control::stop) control = io::Control::stop;
    }
    return stop_ ? io::Control::stop : control;
  };
  return train::fit(job, options);
}

}  // namespace lockstep::train
