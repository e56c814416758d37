// An event of a run. The terminal, plots, TensorBoard and programs that follow a run read only these events.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>

#include "lockstep/base/json.h"

namespace lockstep::io {

// clang-format off
/// One event. These are the kinds and their values. Times are in seconds; readers ignore unknown values.
///   plan        the resolved plan: network, workers, shards, steps_per_epoch, max_epochs, ... (see manifest)
///   shards      owners: the worker that each shard is first given to; threads: the thread id of each worker
///   step        loss, accuracy (of this mini-batch), learning_rate, samples, images_per_second,
///               seconds_left; the times of the step: queue_seconds, forward_seconds, backward_seconds,
///               exchange_seconds, hidden_exchange_seconds, update_seconds, checkpoint_seconds;
///               shard_workers: the worker that computed each shard of this mini-batch
///   average     after replicas were averaged: score (mean loss of their last mini-batches), seconds
///   first_step  seconds: from the start of the run to the end of its first step
///   validation  loss, accuracy, samples, best (bool), images_per_second
///   skipped     files: [path, reason] of each file that --on-bad-sample skip skipped
///   checkpoint  path, seconds, best (bool): whether best.safetensors was written too
///   best        path, seconds: best.safetensors was written without a checkpoint
///   hash        weights: 16 hexadecimal digits, the hash of all weights after this step
///   message     text, level: info|warning
///   stopping    text: a stop was requested and is in progress
///   end         reason, seconds, images_per_second (without the first step), weights_path,
///               skipped_checkpoints (those due while another one was being written);
///               with held-out data accuracy, loss, best_accuracy, best_step;
///               with test data test_accuracy, test_loss
// clang-format on
struct Event {
  double time = 0;  ///< seconds since 1970
  int64_t rank = 0;
  int64_t attempt = 0;   ///< 0 for the first start, one more for each resume
  int64_t sequence = 0;  ///< number of the event within this rank and attempt
  int64_t epoch = 0;     ///< counts from 1; 0 before the first epoch
  int64_t step = 0;      ///< optimizer steps since the beginning of the run
  std::string kind;
  Json values = Json::object();
};

/// An observer's answer: stop ends the run after this step and keeps the weights.
enum class Control { go, stop };

/// Called on rank 0's thread between steps; must return quickly.
using Observer = std::function<Control(const Event&)>;

/// One line of JSON without the line break. Numbers that JSON cannot represent are written as the texts
/// "nan", "inf" and "-inf"; bytes that are not UTF-8 are replaced.
std::string to_line(const Event& event);

/// Reads a line written by to_line. Throws corrupt_data; unknown values are ignored.
Event from_line(std::string_view line);

/// A value as a number, also from the texts of to_line; beyond 1e300 it is infinite. NaN if it is null,
/// `fallback` if it is missing or not a number.
double number(const Event& event, std::string_view key,
              double fallback = std::numeric_limits<double>::quiet_NaN());

/// A value as text, or `fallback` if it is missing or not text.
std::string text(const Event& event, std::string_view key, std::string_view fallback = {});

/// A value as a boolean; false if it is missing.
bool flag(const Event& event, std::string_view key);

}  // namespace lockstep::io
