// Which trial is trained next and how far. A search knows nothing of processes or clocks: it counts its time
// in steps of trials, and behaves as if `lag` virtual workers trained them. So it asks for the same trials,
// and stops the same ones, however many are trained side by side and in whatever order they end.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/sweep/rung.h"
#include "lockstep/sweep/sampler.h"

namespace lockstep::sweep {

/// Whether trials that do badly end before their full length.
enum class StopRule {
  none,
  asha,   ///< at each rung the best 1 / reduction of the trials go on (Li et al. 2020), with the delayed
          ///< promotion of Hyper-Tune (Li et al. 2022): more of them only when a rung is complete
  median  ///< a trial that is worse than the median of earlier trials at a rung ends
};
constexpr std::array<const char*, 3> enum_names(StopRule) { return {"none", "asha", "median"}; }

/// What is searched for, and how. The options of `lockstep sweep` with these names mean the same.
struct SearchOptions {
  SamplerChoice sampler{};         ///< how the parameters of a trial are chosen, and the seed
  int64_t count = 20;              ///< number of trials; a grid has no more than its points
  int64_t lag = 8;                 ///< a trial does not depend on the outcomes of so many trials before it
  bool maximize = true;            ///< whether the highest value is the best one, or the lowest
  StopRule stop = StopRule::none;  ///< whether trials that do badly end early
  int64_t first_rung = 0;          ///< step of the first rung; with a stop rule above 0
  int64_t reduction = 3;           ///< the next rung has this many times the steps of the one before
  int64_t total_steps = 0;         ///< of each trial's full length; 0: outcomes say it
  bool free = false;  ///< outcomes are used in the order in which they are told, not in that of the trials:
                      ///< the search then depends on which trials are quick
};

/// How far a trial is.
enum class TrialState {
  waiting,  ///< paused at a rung, or not begun
  running,  ///< a segment of it was given out
  ended,    ///< trained in full
  early,    ///< the stop rule has ended it
  stopped,  ///< a person has ended it
  failed
};
constexpr std::array<const char*, 6> enum_names(TrialState) {
  return {"waiting", "running", "ended", "early", "stopped", "failed"};
}
/// Whether the trial is trained no more.
constexpr bool is_over(TrialState state) {
  return state != TrialState::waiting && state != TrialState::running;
}

/// Which result is better: the lower one. Trials in full come before those that ended early.
using ResultRank = std::pair<bool, double>;
/// Nothing for a trial without a result that counts. value: kAbsent for none
std::optional<ResultRank> rank_of_result(TrialState state, double value, bool maximize);

/// What became of a segment.
struct Outcome {
  TrialState state = TrialState::ended;  ///< waiting: it is paused at the rung; not running or early
  double value = kAbsent;                ///< what is searched for; the best so far of a trial that is paused
  int64_t step = 0;                      ///< up to which it was trained
  int64_t total_steps = 0;               ///< of its full length; 0: not known
  std::string error{};
};

/// One choice of the parameters, and what is known of its training.
struct Trial {
  int64_t number = 0;  ///< from 0, in the order in which trials begin
  Point point{};       ///< its parameters; Space::assignment gives their names and texts
  TrialState state = TrialState::waiting;
  double value = kAbsent;          ///< what is searched for, as Outcome::value
  int64_t step = 0;                ///< up to which it was trained
  int64_t total_steps = 0;         ///< of its full length; 0: not known
  std::string error{};             ///< why it failed
  std::vector<double> at_rungs{};  ///< its value at each rung that it has reached
};

/// What the trial becomes. It fails if its value is not finite.
Trial with_outcome(Trial trial, const Outcome& outcome);

/// Whether a trial that ended with an error of this kind (name_of(ErrorCode)) may end otherwise when it
/// starts again.
bool is_passing(std::string_view error_code);

/// Steps [.., until] of a trial; until 0: to its end.
struct Segment {
  int64_t trial = 0;
  int64_t until = 0;
  auto operator<=>(const Segment&) const = default;
};

/// One thread.
class Search {
 public:
  /// Throws invalid_option for a space or options that do not go together.
  Search(const Space& space, const SearchOptions& options);

  /// Gives out the segments that can be trained now, the most urgent first: those that were given out before
  /// and have no outcome yet, too. A view of the search: until an outcome is told.
  auto under_way() {
    fill();
    return std::views::transform(std::as_const(flights_), &Flight::segment);
  }
  /// Whether the segment was given out and has no outcome yet.
  bool is_under_way(const Segment& segment) const;

  /// The next segment of a trial that has begun and is not over, also of one that is not given out.
  Segment segment_of(int64_t trial) const;

  /// The segment whose outcome is told next. Nothing if the search is over.
  std::optional<Segment> next();
  /// Whether any segment under way may be told instead: with SearchOptions::free, and where no trial depends
  /// on the result of another one.
  bool tells_in_any_order() const;

  /// Returns the trials that are over with it: this one, and those that the stop rule now ends where they are
  /// paused, as soon as no outcome of others can let them go on.
  std::vector<int64_t> tell(const Segment& segment, const Outcome& outcome);

  /// The point of a trial that has not begun yet, instead of the sampler's.
  void keep_point(int64_t trial, Point point) { kept_points_[trial] = std::move(point); }

  const std::vector<Trial>& trials() const { return trials_; }
  /// The best trial that has a result; those that were trained in full count before others.
  const Trial* best() const;
  const Space& space() const { return space_; }
  int64_t count() const { return count_; }
  /// How many segments can be under way at once.
  int64_t width() const;

 private:
  struct Flight {
    double end = 0;  // virtual time
    int64_t order = 0;
    Segment segment;
    auto operator<=>(const Flight& other) const {
      return std::pair(end, order) <=> std::pair(other.end, other.order);
    }
  };
  struct TrialsAtRung {
    Rung results;                     // of all that have come to it
    std::set<Rung::Place> waiting{};  // that are paused there
    std::set<Rung::Place> first{};    // the best ones: as many as can go on at most
    int64_t gone_on = 0;
  };
  void fill();
  bool promote();
  bool has_one_in_place(const TrialsAtRung& there) const;
  bool has_one_without_place(size_t rung) const;
  bool begin_trial();
  void give_out(Trial& trial);
  void tell_rung(Trial& trial);
  void end_those_that_cannot_go_on(std::vector<int64_t>& over);
  void end_where_it_is(int64_t trial, std::vector<int64_t>& over);
  int64_t rung_steps(size_t rung) const;
  int64_t end_of_segment(const Trial& trial) const;
  double loss_of(double value) const { return options_.maximize ? -value : value; }
  std::vector<Observation> observations_before(int64_t trial) const;

  Space space_;
  SearchOptions options_;
  std::unique_ptr<Sampler> sampler_;
  int64_t count_ = 0;
  std::map<int64_t, Point> kept_points_;
  std::vector<Trial> trials_;
  std::vector<TrialsAtRung> rungs_;
  std::set<Flight> flights_;
  double now_ = 0;
  int64_t given_out_ = 0;
};

}  // namespace lockstep::sweep
