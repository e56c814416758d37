// One thing that a run says. Terminal, plots, TensorBoard, studio and remote clients all read these and
// nothing else.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>

#include "lockstep/base/json.h"

namespace lockstep::io {

/// Kinds and their values (seconds are wall time; what a reader does not know it skips):
///   plan        what was resolved: network, workers, shards, steps_per_epoch, max_epochs, ... (the
///   manifest's plan) shards      owners: the worker that each shard is first given to; threads: the system's
///   thread id of each worker step        loss, accuracy (of this mini-batch), learning_rate, samples,
///   images_per_second, seconds_left, and the step's breakdown:
///               queue_seconds, forward_seconds, backward_seconds, exchange_seconds, hidden_exchange_seconds,
///               update_seconds, checkpoint_seconds; shard_workers: who computed each shard of this
///               mini-batch
///   average     after an average of replicas: score (mean loss of their last mini-batches), seconds: of the
///   averaging first_step  seconds: from the start of the run to the end of its first step validation  loss,
///   accuracy, samples, best (bool), images_per_second skipped     files: [path, reason] of each that
///   --on-bad-sample skip left out checkpoint  path, seconds, best (bool): whether best.safetensors was
///   written too best        path, seconds: best.safetensors alone was written hash        weights: 16
///   hexadecimal digits, of all weights after this step message     text, level: info|warning stopping text:
///   a stop was asked for, and is under way end         reason, seconds, images_per_second (all steps but the
///   first), skipped_checkpoints (due while one was being written),
///               weights_path; with held-out data accuracy, loss, best_accuracy, best_step; with test data
///               test_accuracy, test_loss
struct Event {
  double time = 0;  ///< seconds since 1970
  int64_t rank = 0;
  int64_t attempt = 0;   ///< 0, and one more at each resume
  int64_t sequence = 0;  ///< counts this rank's events of this attempt
  int64_t epoch = 0;     ///< from 1, as people count; 0 before the first
  int64_t step = 0;      ///< optimizer steps done since the run began
  std::string kind;
  Json values = Json::object();
};

/// What an observer answers: stop ends the run after this step and keeps the weights.
enum class Control { go, stop };

/// Called on the thread of rank 0, between steps; must be quick.
using Observer = std::function<Control(const Event&)>;

/// One line of JSON without the line break. Numbers that JSON lacks are written as the texts "nan", "inf" and
/// "-inf"; bytes that are not UTF-8 are replaced.
std::string to_line(const Event& event);

/// Reads what to_line wrote. Throws corrupt_data; what it does not know it skips.
Event from_line(std::string_view line);

/// A value as a number, the texts of to_line included, beyond 1e300 infinite; NaN where it is null,
/// `fallback` where it is absent or no number.
double number(const Event& event, std::string_view key,
              double fallback = std::numeric_limits<double>::quiet_NaN());

/// A value as text, or `fallback` where it is absent or no text.
std::string text(const Event& event, std::string_view key, std::string_view fallback = {});

/// A value as yes or no; false where it is absent.
bool flag(const Event& event, std::string_view key);

}  // namespace lockstep::io
