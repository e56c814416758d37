// What a run has logged, in memory: its curves and what it has said.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/record/event.h"
#include "lockstep/record/follower.h"
#include "lockstep/studio/log_contents.h"
#include "lockstep/studio/log_index.h"
#include "lockstep/studio/thin.h"

namespace lockstep::studio {

/// The unit of the axis below a curve.
enum class Axis { step, epoch, time };

struct CurveQuestion {
  std::string name{};  ///< "step.loss", "validation.accuracy"
  Axis axis = Axis::step;
  Window window{};
  double smoothing = 0;  ///< 0: none; below 1
};

struct Curve {
  Points raw{};
  Points smooth{};   ///< empty without smoothing
  double first = 0;  ///< of the whole curve, on the axis
  double last = 0;
};

/// Any thread. What was read so far can be asked for while more is being read.
class RunLog {
 public:
  using Clock = std::chrono::steady_clock;

  explicit RunLog(std::filesystem::path folder, LogIndexes indexes = LogIndexes({}));

  /// Gets something to show: from the index, or a coarse picture of a long log, or by reading for about this
  /// long. Does nothing the next time.
  void open(std::chrono::milliseconds time);
  bool is_open() const { return is_open_; }
  /// Reads what was added, for about this long. Returns whether there is something new to show.
  bool read_for(std::chrono::milliseconds time);
  /// Writes the index if all was read and it lacks much.
  void keep();
  /// Whether all was read at the last look.
  bool is_complete() const;

  /// Nothing if the run has no such values.
  std::optional<Curve> curve(const CurveQuestion& question);
  /// The names of all curves.
  std::vector<std::string> names() const;
  /// What the run has said: {"plan", "environment", "messages", "validations", "failed", "end", "newest"};
  /// what it has not said is absent.
  Json said() const;
  int64_t bytes() const;

 private:
  bool begin();
  bool read(std::chrono::milliseconds time);
  const LogContents& shown() const { return glimpse_ ? *glimpse_ : contents_; }
  int64_t bytes_read() const;
  void prepare_to_take();
  void read_columns(const CurveQuestion& question);
  void begin_again();

  const std::filesystem::path folder_;
  const LogIndexes indexes_;
  std::mutex reading_;  // of these; taken before mutex_
  record::Follower follower_;
  int64_t restarts_ = 0;
  std::atomic<bool> is_open_ = false;
  int64_t kept_bytes_ = 0;  // of the logs, that the index has

  mutable std::shared_mutex mutex_;  // of these; alone only for short times
  bool is_complete_ = false;
  std::string problem_;  // why the log cannot be read further
  LogContents contents_;
  UnreadColumns unread_;  // of contents_
  std::atomic<bool> has_unread_ = false;
  bool is_damaged_ = false;             // the index, so that all is to be read from the logs
  std::optional<LogContents> glimpse_;  // until all was read for the first time
};

}  // namespace lockstep::studio
