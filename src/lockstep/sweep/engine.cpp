#include "lockstep/sweep/engine.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <map>
#include <set>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/random_hex.h"
#include "lockstep/base/text.h"
#include "lockstep/jobs/job_lock.h"
#include "lockstep/launch/process.h"
#include "lockstep/record/requests.h"
#include "lockstep/sweep/internal/history.h"
#include "lockstep/sweep/internal/kept_weights.h"
#include "lockstep/sweep/internal/trial_process.h"
#include "lockstep/sweep/internal/trial_result.h"

namespace lockstep::sweep {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr auto kPoll = std::chrono::milliseconds(5);
constexpr auto kRequestPoll = std::chrono::milliseconds(200);
constexpr auto kMostTimeToSave = std::chrono::seconds(60);

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

LogLine line_of(const Segment& segment, const TrialResult& result) {
  const Outcome& outcome = *result.outcome;
  LogLine line{
      .kind = LogKind::outcome, .trial = segment.trial, .until = segment.until, .state = outcome.state};
  if (std::isfinite(outcome.value)) line.value = outcome.value;
  line.step = outcome.step;
  line.total_steps = outcome.total_steps;
  line.seconds = result.seconds;
  if (!result.weights_hash.empty()) line.weights_hash = result.weights_hash;
  if (!outcome.error.empty()) line.text = outcome.error;
  return line;
}

// What ask_to_stop has asked for since the last time.
std::vector<std::string> taken_requests(const SweepPaths& paths) {
  std::vector<std::string> taken;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(paths.requests(), none)) {
    if (!entry.path().filename().string().starts_with("stop-")) continue;
    taken.push_back(first_line_of(entry.path()));
    fs::remove(entry.path(), none);
  }
  return taken;
}

class Engine {
 public:
  Engine(const SweepPaths& paths, const SweepSpec& spec, const EngineOptions& options)
      : paths_(paths),
        spec_(spec),
        options_(options),
        search_(spec.space, search_options()),
        side_by_side_(side_by_side()),
        log_(paths) {
    for (const LogLine& line : read_log(paths)) history_.take(line);
  }

  SweepEnd run() {
    const auto start = Clock::now();
    auto last = start;
    while (true) {
      tell_known();
      end_early_trials();
      if (options_.stop.stop_requested() || stops_) break;
      start_processes();
      if (running_.empty() && !search_.next()) break;
      std::this_thread::sleep_for(kPoll);
      const auto now = Clock::now();
      const auto free = static_cast<double>(side_by_side_ - static_cast<int64_t>(running_.size()));
      idle_ += free * std::chrono::duration<double>(now - last).count();
      last = now;
      look_at_processes();
      look_for_requests();
    }
    stop_processes();
    return {.is_complete = !search_.next().has_value(),
            .seconds = seconds_since(start),
            .idle_seconds = idle_,
            .side_by_side = side_by_side_};
  }

 private:
  struct Running {
    pid_t process = 0;
    Clock::time_point start;
  };

  int64_t side_by_side() const {
    return spec_.options.trials > 0 ? spec_.options.trials
                                    : std::max<int64_t>(1, options_.cores / spec_.options.workers);
  }

  SearchOptions search_options() const {
    SearchOptions search = spec_.search();
    if (search.free) search.lag = std::max<int64_t>(0, side_by_side() - 1);
    return search;
  }

  // Tells all outcomes that are there and next in turn.
  void tell_known() {
    while (true) {
      std::optional<Segment> next = search_.next();
      if (spec_.options.free) next = first_known_under_way();
      if (!next || !history_.known.contains(*next)) return;
      check_parameters(next->trial);
      if (!history_.known.contains(*next)) return;
      search_.tell(*next, history_.known.at(*next));
      drop_weights(paths_, spec_, search_.trials(), dropped_);
    }
  }

  std::optional<Segment> first_known_under_way() {
    const std::vector<Segment> under_way = search_.under_way();
    for (const Segment& segment : history_.order) {
      if (std::find(under_way.begin(), under_way.end(), segment) != under_way.end()) return segment;
    }
    return std::nullopt;
  }

  // A trial that was started again may have another result, so that later ones are others, too: they begin
  // anew. Another build or processor may also choose another point, in the last digits or altogether.
  void check_parameters(int64_t trial) {
    const auto begun = history_.begun.find(trial);
    if (begun == history_.begun.end() || begun->second == words_of(trial)) return;
    if (history_.has_restarts) {
      restart_trial(paths_, log_, trial);
      return history_.forget(trial);
    }
    throw Error(ErrorCode::invalid_option,
                "trial " + std::to_string(trial) + " was made with " + join(begun->second, " ") +
                    ", but this search gives " + join(words_of(trial), " "),
                "go on with the program and on the kind of processor that began the sweep");
  }

  std::vector<std::string> words_of(int64_t trial) const {
    std::vector<std::string> words;
    for (const auto& [name, value] : parameters_of(trial)) words.push_back(name + "=" + value);
    return words;
  }

  Assignment parameters_of(int64_t trial) const {
    return search_.space().assignment(search_.trials()[static_cast<size_t>(trial)].point);
  }

  void end_early_trials() {
    for (const Trial& trial : search_.trials()) {
      if (trial.state != TrialState::early || !history_.early.insert(trial.number).second) continue;
      log_.write({.kind = LogKind::early, .trial = trial.number});
      say(trial, "");
      drop_weights(paths_, spec_, search_.trials(), dropped_);
    }
  }

  void start_processes() {
    for (const Segment& segment : search_.under_way()) {
      if (static_cast<int64_t>(running_.size()) >= side_by_side_) return;
      if (running_.contains(segment) || history_.known.contains(segment)) continue;
      check_parameters(segment.trial);
      start(segment);
    }
  }

  void start(const Segment& segment) {
    if (history_.begun.try_emplace(segment.trial, words_of(segment.trial)).second)
      log_.write({.kind = LogKind::begin,
                  .trial = segment.trial,
                  .until = segment.until,
                  .parameters = words_of(segment.trial)});
    const pid_t process = start_trial(
        paths_, spec_,
        {.segment = segment, .parameters = parameters_of(segment.trial), .lockstep = options_.lockstep});
    running_[segment] = {process, Clock::now()};
    say(search_.trials()[static_cast<size_t>(segment.trial)], "");
  }

  void look_at_processes() {
    for (auto one = running_.begin(); one != running_.end();) {
      const auto end = launch::try_wait_for_end(one->second.process);
      if (!end) {
        ++one;
        continue;
      }
      const Segment segment = one->first;
      const double seconds = seconds_since(one->second.start);
      one = running_.erase(one);
      take_end(segment, *end, seconds);
    }
  }

  void take_end(const Segment& segment, const launch::End& end, double seconds) {
    // A program that a person has stopped gives what it has printed until then.
    const bool by_hand = !spec_.trains() && stopped_by_hand_.contains(segment.trial);
    TrialResult result = result_of(paths_, spec_, segment, by_hand ? launch::End{0} : end);
    if (is_stopping_ && (!result.outcome || result.outcome->state == TrialState::failed)) return;
    if (!result.outcome) {
      log_.write(
          {.kind = LogKind::lost, .trial = segment.trial, .until = segment.until, .text = result.lost});
      say(search_.trials()[static_cast<size_t>(segment.trial)], result.lost);
      if (++history_.losses[segment.trial] <= spec_.options.retries) return;
      result.outcome =
          Outcome{.state = TrialState::failed,
                  .error = result.lost + ", " + std::to_string(history_.losses[segment.trial]) + " times"};
    }
    Outcome& outcome = *result.outcome;
    if (by_hand && outcome.state == TrialState::ended) outcome.state = TrialState::stopped;
    if (!std::isfinite(outcome.value) && outcome.state != TrialState::failed) {
      outcome.state = TrialState::failed;
      if (outcome.error.empty()) outcome.error = "its " + spec_.metric() + " is not a finite number";
    }
    if (result.seconds == 0) result.seconds = seconds;
    log_.write(line_of(segment, result));
    history_.add(segment, outcome);
    Trial shown = search_.trials()[static_cast<size_t>(segment.trial)];
    shown.state = outcome.state;
    shown.value = outcome.value;
    shown.step = outcome.step;
    shown.error = outcome.error;
    say(shown, "");
  }

  void look_for_requests() {
    if (Clock::now() - looked_ < kRequestPoll) return;
    looked_ = Clock::now();
    for (const std::string& which : taken_requests(paths_)) {
      if (which == "all") stops_ = true;
      if (const auto trial = parse_number<int64_t>(which)) stop_trial(*trial);
    }
  }

  void stop_trial(int64_t trial) {
    for (const auto& [segment, process] : running_) {
      if (segment.trial != trial) continue;
      stopped_by_hand_.insert(trial);
      if (spec_.trains()) {
        record::make_request(paths_.trial(trial),
                             {.request = record::RequestKind::finish, .from = "lockstep sweep stop"});
      } else {
        ::kill(process.process, SIGTERM);
      }
    }
  }

  void stop_processes() {
    if (running_.empty()) return;
    is_stopping_ = true;
    for (const auto& [segment, process] : running_) ::kill(process.process, SIGTERM);
    const auto start = Clock::now();
    while (!running_.empty() && Clock::now() - start < kMostTimeToSave) {
      look_at_processes();
      std::this_thread::sleep_for(kPoll);
    }
    for (const auto& [segment, process] : running_) {
      ::kill(process.process, SIGKILL);
      launch::wait_for_end(process.process);
    }
    running_.clear();
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
  History history_;
  std::set<int64_t> dropped_, stopped_by_hand_;
  std::map<Segment, Running> running_;
  Clock::time_point looked_ = Clock::now();
  double idle_ = 0;
  bool stops_ = false;
  bool is_stopping_ = false;
};

void ask(const SweepPaths& paths, const std::string& what) {
  if (!jobs::is_held(paths.lock()))
    throw Error(ErrorCode::not_found, "the sweep " + quote(paths.folder.string()) + " is not going on");
  make_folders(paths.requests());
  write_file_atomic(paths.requests() / ("stop-" + random_hex(8)), what + "\n");
}

}  // namespace

SweepEnd run_sweep(const SweepPaths& paths, const SweepSpec& spec, const EngineOptions& options) {
  make_folders(paths.folder);
  const auto lock = jobs::FileLock::try_take(paths.lock());
  if (!lock)
    throw Error(ErrorCode::invalid_option,
                "another program works on the sweep " + quote(paths.folder.string()),
                "lockstep sweep watch " + paths.folder.string() + " shows it");
  std::error_code none;
  fs::remove_all(paths.requests(), none);  // meant for an earlier program
  return Engine(paths, spec, options).run();
}

void restart_trial(const SweepPaths& paths, LogWriter& log, int64_t trial) {
  fs::remove_all(paths.trial(trial));
  fs::remove(paths.output(trial));
  log.write({.kind = LogKind::restart, .trial = trial});
}

void ask_to_stop(const SweepPaths& paths, int64_t trial) { ask(paths, std::to_string(trial)); }
void ask_to_stop(const SweepPaths& paths) { ask(paths, "all"); }

}  // namespace lockstep::sweep
