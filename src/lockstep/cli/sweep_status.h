// The last line of a terminal while a sweep goes on: how many trials have an end, and when all have.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "lockstep/cli/console.h"
#include "lockstep/sweep/sweep_folder.h"

namespace lockstep::cli {

/// How far a sweep is.
struct SweepStanding {
  sweep::Table table{};
  int64_t planned = 0;         ///< trials of the sweep, with those that have not begun
  int64_t ended_here = 0;      ///< trials that have ended since this program began
  double seconds_to_last = 0;  ///< from its beginning until the last one of them ended
  double seconds_since_last = 0;
};

/// Takes what has become of a trial, `seconds` after the program began.
void take_trial(SweepStanding& standing, const sweep::Trial& trial, double seconds);

/// "3 of 20 trials, 2 running, best 0.9712 (trial 1), about 2:10 left". There is no time left before as many
/// trials have ended as run side by side.
std::string status_text(const SweepStanding& standing);

/// Draws the line on a terminal, again each second, and takes it away at the end. Elsewhere it draws nothing.
/// Any thread.
class SweepStatus {
 public:
  SweepStatus(sweep::Table table, Console& console);
  ~SweepStatus();
  SweepStatus(const SweepStatus&) = delete;
  SweepStatus& operator=(const SweepStatus&) = delete;

  void take(const sweep::Trial& trial);
  /// As the console's print and note, above the line.
  void print(const std::string& text);
  void note(const std::string& text);

 private:
  void draw();
  void take_away();
  double seconds() const;

  Console& console_;
  const bool is_live_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;  // protects what follows, and the order of what is printed
  SweepStanding standing_;
  std::jthread thread_{};
};

}  // namespace lockstep::cli
