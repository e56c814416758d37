#include "lockstep/sweep/engine.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "lockstep/base/file.h"
#include "lockstep/base/random_hex.h"
#include "lockstep/base/seconds.h"
#include "lockstep/jobs/job_lock.h"
#include "lockstep/record/state.h"
#include "lockstep/sweep/internal/sweep_requests.h"
#include "lockstep/sweep/internal/claims.h"
#include "lockstep/sweep/internal/history.h"
#include "lockstep/sweep/internal/kept_weights.h"
#include "lockstep/sweep/internal/moved_workers.h"
#include "lockstep/sweep/internal/trial_places.h"
#include "lockstep/sweep/internal/trial_result.h"

namespace lockstep::sweep {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

using namespace std::chrono_literals;
constexpr auto kPoll = 5ms, kSharedPoll = 50ms, kRequestPoll = 200ms, kAskAgain = 500ms;
constexpr auto kMostTimeToSave = 60s, kMoveInterval = 1s;
constexpr double kWorthMoving = 10;  // seconds that a trial still takes; a move takes about half of one

class Engine {
 public:
  Engine(const SweepPaths& paths, const SweepSpec& spec, const EngineOptions& options)
      : paths_(paths),
        spec_(spec),
        options_(options),
        search_(spec.space, search_options()),
        side_by_side_(side_by_side()),
        log_(paths),
        log_reader_(paths.log()),
        kept_weights_(paths, spec),
        places_(paths, spec, options.lockstep, options.memory) {
    if (options.shared) claims_.emplace(paths.claims());
    read_log();
  }

  SweepEnd run() {
    const auto start = Clock::now();
    auto last = start;
    while (true) {
      if (options_.shared) read_new_lines();
      tell_known();
      look_for_requests();  // also before the first trials: a job may have been asked to stop while it waited
      if (options_.stop.stop_requested() || stops_) break;
      start_trials();
      if (places_.running().empty() && !search_.next()) break;
      std::this_thread::sleep_for(options_.shared ? kSharedPoll : kPoll);
      const auto now = Clock::now();
      const double busy = static_cast<double>(places_.workers()) / static_cast<double>(spec_.options.workers);
      const double free = std::max(0.0, static_cast<double>(side_by_side_) - busy);
      const bool are_left = std::ssize(search_.trials()) < search_.count();  // else nothing is waited for
      if (are_left) idle_ += free * std::chrono::duration<double>(now - last).count();
      last = now;
      look_at_trials();
      move_workers();
    }
    stop_trials();
    return {.is_complete = !search_.next().has_value(),
            .seconds = seconds_since(start),
            .idle_seconds = idle_,
            .side_by_side = side_by_side_,
            .moved = moved_,
            .peak_memory = places_.peak_memory()};
  }

 private:
  int64_t side_by_side() const {
    return spec_.options.trials > 0 ? spec_.options.trials
                                    : std::max<int64_t>(1, options_.cores / spec_.options.workers);
  }

  SearchOptions search_options() const {
    SearchOptions search = spec_.search();
    if (search.free) search.lag = std::max<int64_t>(0, side_by_side() - 1);
    return search;
  }

  void read_log() {
    read_new_lines();
    if (!spec_.options.free) return;
    // What such a search asks for depends on how many places it has: what has begun stays as it is.
    for (const auto& [trial, words] : history_.begun) {
      if (const auto point = spec_.space.point_of(words)) search_.keep_point(trial, *point);
    }
  }

  void read_new_lines() {
    for (const LogLine& line : log_reader_.read()) history_.take(line);
  }

  // An outcome that is there and that the search may know next.
  std::optional<Segment> next_known() {
    const auto next = search_.next();
    if (search_.tells_in_any_order())
      return history_.first_untold([&](const Segment& one) { return search_.is_under_way(one); });
    return next && history_.known.contains(*next) ? next : std::nullopt;
  }

  void tell_known() {
    while (const auto next = next_known()) {
      if (!settle_parameters(*next) || !history_.known.contains(*next)) return;
      const std::vector<int64_t> over = search_.tell(*next, outcome_of(history_.known.at(*next)));
      history_.tell(*next);
      if (const auto line = history_.line_after_early(*next)) write(*line);
      for (const int64_t trial : over) look_at_end(search_.trials()[static_cast<size_t>(trial)]);
    }
  }

  // A trial that was started again may have another result, so that later ones are others, too: they begin
  // anew. Another build or processor may also choose another point, in the last digits or altogether. Returns
  // false if another program has claimed the trial.
  bool settle_parameters(const Segment& segment) {
    const int64_t trial = segment.trial;
    if (has_parameters_of_search(trial)) return true;
    history_.check_may_change(trial, words_of(trial));
    if (claims_) {
      if (claims_->take(segment) == Claim::other) return false;
      read_new_lines();  // another program may have let it begin anew
    }
    if (!has_parameters_of_search(trial)) {
      restart_trial(paths_, log_, trial);
      history_.begin_anew(trial);
      stopped_by_hand_.erase(trial);
    }
    release(segment);
    return true;
  }

  bool has_parameters_of_search(int64_t trial) const {
    const auto begun = history_.begun.find(trial);
    return begun == history_.begun.end() || begun->second == words_of(trial);
  }

  std::vector<std::string> words_of(int64_t trial) const {
    return search_.space().words_of(search_.trials()[static_cast<size_t>(trial)].point);
  }

  void look_at_end(const Trial& trial) {
    kept_weights_.take(trial);
    if (trial.state != TrialState::early || history_.ended_early(trial)) return;
    write({.kind = LogKind::early, .trial = trial.number, .value = trial.value, .step = trial.step});
    say(trial, "");
  }

  void start_trials() {
    for (const Segment& segment : search_.under_way()) {
      if (static_cast<int64_t>(places_.running().size()) >= side_by_side_) return;
      if (places_.running().contains(segment) || history_.known.contains(segment)) continue;
      if (settle_parameters(segment) && claim(segment)) start(segment);
    }
  }

  // Whether this program is to train it.
  bool claim(const Segment& segment) {
    if (!claims_) return true;
    const Claim claim = claims_->take(segment);
    if (claim == Claim::other) return false;
    read_new_lines();  // what the one that had it before has written
    if (history_.known.contains(segment)) {
      claims_->release(segment);
      return false;
    }
    return claim != Claim::after_death ||
           !lose(segment, {.lost = kProgramKilled, .hint = memory_hint(spec_)});
  }

  // Returns whether it fails, because it was lost too often.
  bool lose(const Segment& segment, const TrialResult& result) {
    const std::string& why = result.lost;
    log_.write(line_of_loss(paths_, segment, result));
    read_new_lines();  // counts it
    const int64_t losses = history_.losses_for(why, segment.trial);
    if (losses <= (why == kProgramKilled ? kMostKills : spec_.options.retries)) {
      say(search_.trials()[static_cast<size_t>(segment.trial)], why);
      return false;
    }
    const std::string error =
        why + ", " + std::to_string(losses) + " times" + (result.hint.empty() ? "" : "; " + result.hint);
    TrialOutput(paths_.output(segment.trial), "").release();  // also of a program that was killed
    add_outcome(segment, {.outcome = Outcome{.state = TrialState::failed, .error = error}});
    return true;
  }

  void write(const LogLine& line) {
    log_.write(line);
    history_.take(line);
  }

  void add_outcome(const Segment& segment, const TrialResult& result) {
    write(line_of(segment, result));
    if (claims_) claims_->release(segment);
    say(with_outcome(search_.trials()[static_cast<size_t>(segment.trial)], *result.outcome), "");
  }

  void start(const Segment& segment) {
    if (const auto asked = result_of_asked_end(paths_, spec_, segment)) return add_outcome(segment, *asked);
    const Trial& trial = search_.trials()[static_cast<size_t>(segment.trial)];
    const std::vector<std::string> words = words_of(segment.trial);
    history_.begun[segment.trial] = words;
    log_.write({.kind = LogKind::begin, .trial = segment.trial, .until = segment.until, .parameters = words});
    const auto more = workers_of_.find(segment);
    const bool was_lost = history_.losses[segment.trial] > 0;  // it may be what ends others of its process
    places_.start({.segment = segment,
                   .parameters = search_.space().assignment(trial.point),
                   .lockstep = options_.lockstep,
                   .workers = more == workers_of_.end() ? spec_.options.workers : more->second},
                  was_lost);
    say(trial, "");
  }

  void look_at_trials() {
    for (const EndedTrial& ended : places_.take_ended()) take_end(ended);
    if (const std::string note = places_.take_note(); !note.empty() && options_.note) options_.note(note);
  }

  void take_end(EndedTrial ended) {
    const Segment& segment = ended.segment;
    // A program that a person has stopped gives what it has printed until then, and a training that has come
    // to its rung meanwhile what it has there.
    const bool asked = stopped_by_hand_.contains(segment.trial), by_hand = asked && !spec_.trains();
    if (by_hand) ended.end = launch::End{0};
    // One that saves and ends well, since the sweep stops, may have printed only what it had by then.
    if (is_stopping_ && !by_hand && !spec_.trains()) return pause(segment);
    TrialResult result = result_of(paths_, spec_, ended);
    const bool was_moving = moving_.erase(segment) > 0;
    if (was_moving && !result.outcome && !is_stopping_) return;  // it goes on with other workers
    if (is_stopping_ && (!result.outcome || result.outcome->state == TrialState::failed))
      return pause(segment);
    if (!result.outcome) {
      lose(segment, result);
      return release(segment);
    }
    Outcome& outcome = *result.outcome;
    if (asked && outcome.state == (spec_.trains() ? TrialState::waiting : TrialState::ended))
      outcome.state = TrialState::stopped;
    if (result.seconds == 0) result.seconds = ended.seconds;
    add_outcome(segment, result);
  }

  // It goes on later; other trials may have its place until then.
  void pause(const Segment& segment) {
    log_.write({.kind = LogKind::pause, .trial = segment.trial, .until = segment.until});
    release(segment);
  }

  void release(const Segment& segment) {
    if (claims_) claims_->release(segment);
  }

  void look_for_requests() {
    if (Clock::now() - looked_ < kRequestPoll) return;
    looked_ = Clock::now();
    stop_again();
    for (const SweepRequest& asked : requests_in(paths_)) {
      if (asked.what == "stop" && !asked.trial) stops_ = true;
      const bool is_answered = asked.trial && ((asked.what == "stop" && stop_trial(*asked.trial)) ||
                                               (asked.what == "restart" && restart(*asked.trial)));
      if (!is_answered) continue;  // all programs see that the sweep is to stop
      std::error_code none;
      fs::remove(asked.file, none);
    }
  }

  // The search is asked again from its start, as after a kill. Returns whether the request has been answered.
  bool restart(int64_t trial) {
    if (options_.shared ? !places_.is_running(trial) : trial >= std::ssize(search_.trials())) return false;
    stop_trials();
    restart_trial(paths_, log_, trial);
    search_ = Search(spec_.space, search_options());
    history_ = {};
    log_reader_ = LogReader(paths_.log());
    read_log();
    stopped_by_hand_.erase(trial);
    kept_weights_ = KeptWeights(paths_, spec_);  // others may go on, and have weights again
    is_stopping_ = false;
    return true;
  }

  bool stop_trial(int64_t trial) {
    if (!places_.is_running(trial)) return stop_between_rungs(trial);
    stopped_by_hand_[trial] = Clock::now();
    if (spec_.trains()) ask_run_to_end(paths_, trial);
    for (const auto& [segment, running] : places_.running()) {
      if (!spec_.trains() && segment.trial == trial) places_.stop(segment);
    }
    return true;
  }

  // A trial that nobody trains now ends where it is. False: not yet, as where its run is to be made anew.
  bool stop_between_rungs(int64_t trial) {
    if (trial >= std::ssize(search_.trials())) return false;
    if (is_over(search_.trials()[static_cast<size_t>(trial)].state)) return true;
    const Segment segment = search_.segment_of(trial);
    const auto known = history_.known.find(segment);  // not told yet
    if (known != history_.known.end() && is_over(outcome_of(known->second).state)) return true;
    const bool has_begun =
        spec_.trains() ? record::holds_run(paths_.trial(trial)) : history_.begun.contains(trial);
    if (!has_begun || !claim(segment)) return false;
    const bool is_settled = has_parameters_of_search(trial);
    const auto lost = history_.printed.find(trial);
    const auto printed = lost == history_.printed.end() ? std::nullopt : std::optional(lost->second);
    const auto result = is_settled ? end_between_attempts(paths_, spec_, segment, printed) : std::nullopt;
    result ? add_outcome(segment, *result) : release(segment);  // without one, when its turn comes
    return is_settled;
  }

  // A run that was only about to begin takes a request for one to an earlier attempt.
  void stop_again() {
    for (const auto& [trial, asked] : stopped_by_hand_) {
      if (places_.is_running(trial) && Clock::now() - asked > kAskAgain) stop_trial(trial);
    }
  }

  // Workers of places that have nothing to do train the trials that go on.
  void move_workers() {
    if (!options_.moves_workers || !spec_.trains() || Clock::now() - moved_at_ < kMoveInterval) return;
    moved_at_ = Clock::now();
    auto trials = static_cast<int64_t>(places_.running().size());
    for (const Segment& segment : search_.under_way()) {
      if (trials >= side_by_side_) break;  // no place is left over, however many more wait
      trials += !places_.running().contains(segment) && !history_.known.contains(segment) ? 1 : 0;
    }
    const WorkerShare share{
        .all = side_by_side_ * spec_.options.workers, .trials = trials, .least = spec_.options.workers};
    for (const auto& [segment, running] : places_.running()) {
      const int64_t workers = workers_for(share);
      if (workers == running.workers || moving_.contains(segment)) continue;
      if (seconds_left(paths_.trial(segment.trial), seconds_since(running.start)) < kWorthMoving) continue;
      workers_of_[segment] = workers;
      moving_.insert(segment);
      ++moved_;
      places_.stop(segment);
    }
  }

  void stop_trials() {
    if (places_.running().empty()) return;
    is_stopping_ = true;
    for (const auto& [segment, running] : places_.running()) places_.stop(segment);
    const auto start = Clock::now();
    while (!places_.running().empty() && Clock::now() - start < kMostTimeToSave) {
      look_at_trials();
      std::this_thread::sleep_for(kPoll);
    }
    const std::map<Segment, RunningTrial> left = places_.running();
    places_.kill_all();
    for (const auto& [segment, running] : left) pause(segment);
  }

  void say(const Trial& trial, const std::string& note) const {
    if (options_.report) options_.report(trial, note);
  }

  SweepPaths paths_;
  SweepSpec spec_;
  EngineOptions options_;
  Search search_;
  int64_t side_by_side_;
  LogWriter log_;
  LogReader log_reader_;
  History history_;
  KeptWeights kept_weights_;
  std::optional<Claims> claims_;                          // of a sweep on which several programs work
  std::map<int64_t, Clock::time_point> stopped_by_hand_;  // trials, and when they were asked to end
  TrialPlaces places_;
  std::map<Segment, int64_t> workers_of_;  // of trials to which workers were moved, or from which
  std::set<Segment> moving_;               // asked to stop for that
  Clock::time_point looked_ = Clock::now() - kRequestPoll, moved_at_ = Clock::now();
  int64_t moved_ = 0;
  double idle_ = 0;
  bool stops_ = false, is_stopping_ = false;
};

}  // namespace

SweepEnd run_sweep(const SweepPaths& paths, const SweepSpec& spec, const EngineOptions& options) {
  make_folders(paths.folder);
  if (options.shared) {
    make_folders(paths.runners());
    const auto lock = jobs::FileLock::take(paths.runners() / random_hex(8));
    if (jobs::is_held(paths.lock())) refuse_second_program(paths);
    return Engine(paths, spec, options).run();
  }
  const auto lock = begin_alone(paths, spec, options.found);
  return Engine(paths, spec, options).run();
}

}  // namespace lockstep::sweep
