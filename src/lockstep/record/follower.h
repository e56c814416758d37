// Reads what is added to a run's event logs, also while they are written by processes on other machines.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/record/event.h"
#include "lockstep/record/log_name.h"
#include "lockstep/record/measured_lines.h"

namespace lockstep::record {

/// How far one log was read.
struct LogPlace {
  int64_t attempt = 0;
  std::string file{};  ///< its name
  int64_t offset = 0;  ///< of the first byte that was not given yet
  int64_t lines = 0;
  std::string given{};      ///< the last bytes before it, at most 256
  bool skips_line = false;  ///< the line at the offset is too long, which has been said
};

/// Each call of poll() gives the events that were added since the last one: those of one file in their order,
/// and files by attempt. A line without its end is given when its end is there. It needs memory for a few MB
/// and one line, however large the logs are. One thread at a time.
class Follower {
 public:
  using Take = std::function<void(const Event&)>;
  /// Lines with keys.
  using TakeMeasured = std::function<void(const MeasuredLines&, const LogName&)>;

  /// The folder may be empty, or not exist yet.
  explicit Follower(std::filesystem::path run_folder) : run_folder_(std::move(run_folder)) {}

  /// Returns the number of events. If a log was replaced (its run was removed and another one has its name),
  /// restarts() grows, and all events follow from the beginning; `take` sees the new number. Throws
  /// corrupt_data for a line that is no event, with its file and place, and io if the folder or a log cannot
  /// be read; the next call continues after that line. `take` may throw, and is then not given that event
  /// again. A line with zero bytes is waited for, as network file systems show lengths before bytes. After a
  /// minute it is left out: a power cut has taken it.
  int64_t poll(const Take& take) { return poll(take, {}); }

  /// The same, about twenty times as fast for a long log: measured steps are given many at once.
  int64_t poll(const Take& take, const TakeMeasured& take_measured);

  /// The same for logs that nobody writes any more: also gives the last line of a log that has an event but
  /// no end, ignores any other last line, and does not wait.
  int64_t read_all(const Take& take);

  int64_t restarts() const { return restarts_; }

  /// Of all logs.
  std::vector<LogPlace> places() const;
  /// Goes on where another Follower of this run was. If a log is another one now, poll() says so as it does
  /// for a log that was replaced.
  void continue_at(std::vector<LogPlace> places);

 private:
  using Clock = std::chrono::steady_clock;
  class Reading;
  struct Log {
    LogPlace place{};
    std::optional<Clock::time_point> waits_since{};  // for bytes of the line at the place
  };
  struct Takers;
  int64_t read_logs(const Takers& takers, bool is_complete);

  std::filesystem::path run_folder_;
  std::map<std::pair<int64_t, std::string>, Log> logs_;  // by attempt and file name
  int64_t restarts_ = 0;
};

}  // namespace lockstep::record
