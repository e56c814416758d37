#include "lockstep/sweep/search.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::sweep {
namespace {

constexpr size_t kLeastForMedian = 5;

}  // namespace

std::optional<ResultRank> rank_of_result(TrialState state, double value, bool maximize) {
  const bool full = state == TrialState::ended;
  if (std::isnan(value) || !(full || state == TrialState::early || state == TrialState::stopped))
    return std::nullopt;
  return ResultRank{!full, maximize ? -value : value};
}

Trial with_outcome(Trial trial, const Outcome& outcome) {
  trial.state = outcome.state;
  trial.value = outcome.value;
  trial.step = outcome.step;
  if (outcome.total_steps > 0) trial.total_steps = outcome.total_steps;
  trial.error = outcome.error;
  if (trial.state != TrialState::failed && !std::isfinite(trial.value)) {
    trial.state = TrialState::failed;
    if (trial.error.empty()) trial.error = "its result is not a number";
  }
  return trial;
}

bool is_passing(std::string_view error_code) {
  constexpr std::array<std::string_view, 7> kPassing{"io",      "out_of_memory", "device", "communication",
                                                     "timeout", "cancelled",     ""};
  return std::find(kPassing.begin(), kPassing.end(), error_code) != kPassing.end();
}

Search::Search(const Space& space, const SearchOptions& options)
    : space_(space),
      options_(options),
      sampler_(make_sampler(space, options.sampler)),
      count_(options.count) {
  if (space.size() == 0)
    throw Error(ErrorCode::invalid_option, "the sweep searches no parameter",
                "name one before --, as in --learning-rate 0.001..0.1:log");
  if (const auto most = sampler_->most_trials()) count_ = std::min(count_ == 0 ? *most : count_, *most);
  if (options.lag < 0)
    throw Error(ErrorCode::invalid_option, "--lag " + std::to_string(options.lag) + " is below 0",
                "0: each trial sees all earlier ones");
  if (options.stop != StopRule::none && options.reduction < 2)
    throw Error(ErrorCode::invalid_option, "--reduction " + std::to_string(options.reduction) + " is below 2",
                "3: a third of the trials goes on after each rung");
  if (count_ <= 0) throw Error(ErrorCode::invalid_option, "the sweep has no trials", "--count says how many");
  if (options.stop != StopRule::none && options.first_rung <= 0)
    throw Error(ErrorCode::invalid_option,
                std::string("--stop-rule ") + enum_names(options.stop)[static_cast<size_t>(options.stop)] +
                    " needs the steps of its first rung",
                "--first-rung 30 judges trials after 30 steps, 90, 270 and so on");
}

int64_t Search::width() const {
  if (options_.free && (sampler_->learns() || options_.stop != StopRule::none)) return options_.lag + 1;
  if (options_.stop != StopRule::none) return std::max<int64_t>(1, options_.lag);
  return sampler_->learns() ? options_.lag + 1 : count_;
}

int64_t Search::rung_steps(size_t rung) const {
  double steps = static_cast<double>(options_.first_rung);
  for (size_t i = 0; i < rung; ++i) steps *= static_cast<double>(options_.reduction);
  return static_cast<int64_t>(std::min(steps, 1e15));
}

// Of the part that the trial is trained next; 0: to its end.
int64_t Search::end_of_segment(const Trial& trial) const {
  if (options_.stop == StopRule::none) return 0;
  const int64_t rung = rung_steps(trial.at_rungs.size());
  return trial.total_steps == 0 || rung < trial.total_steps ? rung : 0;
}

bool Search::is_under_way(const Segment& segment) const {
  if (segment.trial < 0 || segment.trial >= std::ssize(trials_)) return false;
  const Trial& trial = trials_[static_cast<size_t>(segment.trial)];
  return trial.state == TrialState::running && segment.until == end_of_segment(trial);
}

Segment Search::segment_of(int64_t trial) const {
  return {.trial = trial, .until = end_of_segment(trials_.at(static_cast<size_t>(trial)))};
}

bool Search::tells_in_any_order() const {
  return options_.free || (!sampler_->learns() && options_.stop == StopRule::none);
}

std::optional<Segment> Search::next() {
  fill();
  if (flights_.empty()) return std::nullopt;
  return flights_.begin()->segment;
}

void Search::fill() {
  while (static_cast<int64_t>(flights_.size()) < width()) {
    if (options_.stop == StopRule::asha && promote()) continue;
    if (!begin_trial()) return;
  }
}

// From the highest rung down, so that some trials are soon trained in full. Then from the lowest rung up
// those that lost their place, for they come to the next one.
bool Search::promote() {
  const auto go_on = [&](TrialsAtRung& there) {
    const auto first = there.waiting.begin();
    Trial& trial = trials_[static_cast<size_t>(first->trial)];
    there.waiting.erase(first);
    ++there.gone_on;
    give_out(trial);
    return true;
  };
  for (size_t rung = rungs_.size(); rung-- > 0;) {
    if (has_one_in_place(rungs_[rung])) return go_on(rungs_[rung]);
  }
  for (size_t rung = 0; rung < rungs_.size(); ++rung) {
    if (has_one_without_place(rung)) return go_on(rungs_[rung]);
  }
  return false;
}

// If fewer than the best part of a rung have gone on, one of this part may: early trials, which were the best
// of few, must not add to the part.
bool Search::has_one_in_place(const TrialsAtRung& there) const {
  return there.gone_on < static_cast<int64_t>(there.results.part()) && !there.waiting.empty() &&
         there.results.is_in_part(*there.waiting.begin());
}

// When no other trial comes to the rung any more, those of the best part go on that lost their place to an
// early one; one at least.
bool Search::has_one_without_place(size_t rung) const {
  const TrialsAtRung& there = rungs_[rung];
  if (static_cast<int64_t>(trials_.size()) < count_ || there.waiting.empty()) return false;
  const bool more_come = std::any_of(flights_.begin(), flights_.end(), [&](const Flight& one) {
    return trials_[static_cast<size_t>(one.segment.trial)].at_rungs.size() <= rung;
  });
  const Rung::Place& first = *there.waiting.begin();
  return !more_come && (there.results.is_in_part(first) || there.results.is_best(first));
}

bool Search::begin_trial() {
  const auto number = static_cast<int64_t>(trials_.size());
  if (number >= count_) return false;
  Trial trial{.number = number, .total_steps = options_.total_steps};
  const auto kept = kept_points_.find(number);
  trial.point =
      kept != kept_points_.end() ? kept->second : sampler_->suggest(number, observations_before(number));
  trials_.push_back(std::move(trial));
  give_out(trials_.back());
  return true;
}

std::vector<Observation> Search::observations_before(int64_t number) const {
  std::vector<Observation> observations;
  if (!sampler_->learns()) return observations;
  for (const Trial& trial : trials_) {
    if (trial.number >= number || trial.state == TrialState::failed) continue;
    Observation one{.trial = trial.number, .point = trial.point};
    if (trial.state == TrialState::ended || trial.state == TrialState::stopped) {
      one.state = Observation::State::ended;
    } else if (trial.state == TrialState::early || !trial.at_rungs.empty()) {
      one.state = Observation::State::early;
    }
    if (one.state != Observation::State::pending) one.loss = loss_of(trial.value);
    one.step = trial.step;
    observations.push_back(std::move(one));
  }
  return observations;
}

void Search::give_out(Trial& trial) {
  const Segment segment{.trial = trial.number, .until = end_of_segment(trial)};
  double duration = 1;
  if (options_.stop != StopRule::none)
    duration = static_cast<double>((segment.until > 0 ? segment.until : trial.total_steps) - trial.step);
  trial.state = TrialState::running;
  flights_.insert({now_ + duration, given_out_++, segment});
}

std::vector<int64_t> Search::tell(const Segment& segment, const Outcome& outcome) {
  const auto flight = std::find_if(flights_.begin(), flights_.end(),
                                   [&](const Flight& one) { return one.segment == segment; });
  if (flight == flights_.end() || (!tells_in_any_order() && flight != flights_.begin()))
    throw Error(ErrorCode::internal,
                "an outcome of trial " + std::to_string(segment.trial) + " was told out of turn");
  now_ = std::max(now_, flight->end);
  flights_.erase(flight);
  Trial& trial = trials_[static_cast<size_t>(segment.trial)];
  trial = with_outcome(std::move(trial), outcome);
  if (trial.state == TrialState::waiting && segment.until == 0) trial.state = TrialState::ended;
  if (trial.state == TrialState::waiting) tell_rung(trial);
  std::vector<int64_t> over;
  if (is_over(trial.state)) over.push_back(trial.number);
  if (options_.stop == StopRule::asha) end_those_that_cannot_go_on(over);
  if (flights_.empty()) fill();
  if (!flights_.empty()) return over;
  for (TrialsAtRung& there : rungs_) {  // nothing goes on any more
    for (const Rung::Place& one : there.waiting) end_where_it_is(one.trial, over);
    there.waiting.clear();
  }
  return over;
}

void Search::end_where_it_is(int64_t trial, std::vector<int64_t>& over) {
  trials_[static_cast<size_t>(trial)].state = TrialState::early;
  over.push_back(trial);
}

// A trial goes on only while it is in the best part of its rung or the best there, so one with more better
// ones than that part can ever have goes on never again. The part counts twice: as many may go on in place,
// and then those that take their places when the rung is complete.
void Search::end_those_that_cannot_go_on(std::vector<int64_t>& over) {
  int64_t most = count_;  // of the trials that can come to the rung
  for (TrialsAtRung& there : rungs_) {
    const int64_t part = std::max<int64_t>(1, most / options_.reduction);
    while (std::ssize(there.first) > part) {
      const Rung::Place last = *std::prev(there.first.end());
      there.first.erase(last);
      if (there.waiting.erase(last) > 0) end_where_it_is(last.trial, over);
    }
    const int64_t to_come = most - static_cast<int64_t>(there.results.size());
    most =
        std::min(there.gone_on + std::ssize(there.waiting) + to_come, std::max(there.gone_on, part) + part);
  }
}

void Search::tell_rung(Trial& trial) {
  const bool is_asha = options_.stop == StopRule::asha;
  const size_t rung = trial.at_rungs.size();
  trial.at_rungs.push_back(trial.value);
  if (rung == rungs_.size()) rungs_.push_back({.results = Rung(is_asha ? options_.reduction : 2)});
  TrialsAtRung& there = rungs_[rung];
  const Rung::Place place{loss_of(trial.value), trial.number};
  if (is_asha) {
    there.waiting.insert(place);
    there.first.insert(place);
  } else if (there.results.size() < kLeastForMedian || place.loss <= there.results.median()) {
    give_out(trial);
  } else {
    trial.state = TrialState::early;
  }
  there.results.add(place);
}

const Trial* Search::best() const {
  const Trial* best = nullptr;
  std::optional<ResultRank> rank_of_best;
  for (const Trial& trial : trials_) {
    const auto rank = rank_of_result(trial.state, trial.value, options_.maximize);
    if (!rank || (rank_of_best && *rank >= *rank_of_best)) continue;
    best = &trial;
    rank_of_best = rank;
  }
  return best;
}

}  // namespace lockstep::sweep
