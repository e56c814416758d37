#include "lockstep/train/tasks/parallel_wrapper.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/share.h"
#include "lockstep/device/inventory.h"
#include "lockstep/train/loop/checkpoint.h"

namespace lockstep::train {
namespace {

// The defaults of ParallelWrapper.Builder.
constexpr int64_t kPrefetchBuffer = 16;
constexpr int64_t kFewestWorkers = 2;

int64_t at_least_one(int64_t value, const char* what) {
  if (value < 1)
    throw Error(ErrorCode::invalid_option, std::string("a ParallelWrapper cannot have ") + what + " of " +
                                               std::to_string(value) + ": it must be at least 1");
  return value;
}

}  // namespace

ParallelWrapper::Builder::Builder(nn::Network network, Options options)
    : network_(std::move(network)), options_(std::move(options)) {
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

ParallelWrapper::Builder& ParallelWrapper::Builder::averaging_warmup_steps(int64_t steps) {
  if (steps < 0)
    throw Error(ErrorCode::invalid_option, "a ParallelWrapper cannot have " + std::to_string(steps) +
                                               " averaging warm-up steps: it must be at least 0");
  options_.averaging_warmup_steps = steps;
  return *this;
}

ParallelWrapper::Builder& ParallelWrapper::Builder::classes(int64_t count) {
  classes_ = at_least_one(count, "classes");
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

ParallelWrapper::Builder& ParallelWrapper::Builder::listener(record::Observer listener) {
  listeners_.push_back(std::move(listener));
  return *this;
}

ParallelWrapper::ParallelWrapper(nn::Network network, Options options, int64_t classes,
                                 std::vector<record::Observer> listeners)
    : network_(std::move(network)),
      options_(std::move(options)),
      classes_(classes),
      listeners_(std::move(listeners)),
      standing_(std::make_shared<Standing>()) {}

Result ParallelWrapper::fit(const data::Dataset& dataset) {
  stop_ = false;
  standing_->more_passes = false;
  TrainingRequest request;
  request.dataset = dataset;
  return fit_one(std::move(request), options_);
}

Result ParallelWrapper::fit_stream(const data::NextMiniBatch& next, int64_t mini_batches) {
  const Standing standing = *standing_;
  const int64_t epochs = epochs_, classes = classes_;
  try {
    return fit_passes(next, mini_batches);
  } catch (...) {
    *standing_ = standing;
    epochs_ = epochs;
    classes_ = classes;
    throw;
  }
}

// One run for each pass, because the number of its steps is known only at its end.
Result ParallelWrapper::fit_passes(const data::NextMiniBatch& next, int64_t mini_batches) {
  stop_ = false;
  const int64_t passes = std::max<int64_t>(1, options_.max_epochs);
  Options options = options_;
  options.max_epochs = 1;
  options.shuffle = data::Shuffle::never;
  options.validation_split = 0;
  options.validation_count_per_class = 0;
  if (epochs_ == 0 && options.max_steps == 0)
    options.max_steps = passes * divided_up(mini_batches, options.shards);
  Result result;
  for (int64_t pass = 0; pass < passes; ++pass) {
    TrainingRequest request;
    request.stream = std::make_shared<data::MiniBatchStream>(
        next, data::StreamOptions{.replicas = options.shards,
                                  .read_ahead = options.prefetch,
                                  .classes = classes_,
                                  .mini_batches = mini_batches,
                                  .augment = data::Augment::parse(options.augment),
                                  .seed = options.seed,
                                  .epoch = epochs_});
    classes_ = request.stream->classes();
    standing_->more_passes = pass + 1 < passes;
    result = fit_one(std::move(request), options);
    if (result.reason != EndReason::finished || (options.max_steps > 0 && result.steps >= options.max_steps))
      break;
  }
  return result;
}

Result ParallelWrapper::fit_one(TrainingRequest request, const Options& options) {
  if (options.resume)
    throw Error(
        ErrorCode::invalid_option,
        "a ParallelWrapper's training cannot be resumed from its folder \"" + options.output + "\"",
        "make a wrapper whose options name the file model.safetensors there as weights, and another output");
  request.network = network_;
  request.standing = standing_;
  request.console = options.report_score_after_averaging;
  request.observer = [this](const record::Event& event) {
    record::Control control = record::Control::go;
    for (const record::Observer& listener : listeners_) {
      if (listener(event) == record::Control::stop) control = record::Control::stop;
    }
    return stop_ ? record::Control::stop : control;
  };
  Result result = train::fit(request, options);
  epochs_ = result.epochs;
  return result;
}

}  // namespace lockstep::train
