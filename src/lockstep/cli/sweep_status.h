// The last line of a terminal while a sweep goes on: how many trials have an end, and when all have.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "lockstep/cli/console.h"
#include "lockstep/sweep/engine.h"
#include "lockstep/sweep/sweep_folder.h"

namespace lockstep::cli {

/// How far a sweep is. Taking a trial and making the text take no longer after many trials. One thread.
class SweepStanding {
 public:
  /// planned: trials of the sweep, with those that have not begun
  SweepStanding(const sweep::Table& table, int64_t planned);

  /// Takes what has become of a trial, `seconds` after the program began.
  void take(const sweep::Trial& trial, double seconds);

  /// "3 of 20 trials, 2 running, best 0.9712 (trial 1), about 2:10 left". There is no time left before as
  /// many trials have ended as run side by side.
  std::string text(double seconds) const;

 private:
  struct Known {
    sweep::TrialState state{};
    std::optional<double> value{};
  };
  using Rank = std::pair<sweep::ResultRank, int64_t>;
  std::optional<Rank> rank_of(int64_t trial, const Known& known) const;
  void replace(int64_t trial, const Known& known);
  int64_t count(sweep::TrialState state) const;
  std::optional<double> seconds_left(double seconds, int64_t without_end) const;

  bool maximizes_;
  int64_t planned_;
  std::map<int64_t, Known> trials_;
  std::map<sweep::TrialState, int64_t> counts_;
  std::set<Rank> ranks_;        // of trials that have a result
  int64_t ended_here_ = 0;      // trials that have ended since the program began
  double seconds_to_last_ = 0;  // from its beginning until the last one of them ended
};

/// A line that says how much time went into waiting for the results of earlier trials; empty if none did.
std::string waiting_text(const sweep::SweepEnd& end);

/// Draws the line on a terminal, again each second, and takes it away at the end. Elsewhere it draws nothing.
/// Any thread.
class SweepStatus {
 public:
  SweepStatus(const sweep::Table& table, Console& console);
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
