#include "lockstep/sweep/internal/trial_places.h"

#include <algorithm>
#include <csignal>
#include <utility>

namespace lockstep::sweep {
namespace {

using namespace std::chrono_literals;
constexpr auto kMostTimeToEnd = 60s;  // of a program that was asked to stop

}  // namespace

TrialPlaces::TrialPlaces(SweepPaths paths, SweepSpec spec, const std::string& lockstep, int64_t memory)
    : paths_(std::move(paths)), spec_(std::move(spec)), host_(lockstep, memory) {}

void TrialPlaces::start(const TrialStart& trial, bool alone) {
  RunningTrial running{.start = std::chrono::steady_clock::now(), .workers = trial.workers};
  if (alone || !spec_.on_threads()) {
    running.process = start_trial(paths_, spec_, trial);
    running.output.emplace(paths_.output(trial.segment.trial), spec_.trains() ? "" : spec_.metric());
  } else {
    std::vector<std::string> words = prepare_trial(paths_, spec_, trial);
    words.erase(words.begin());  // the program
    running.id = next_id_++;
    host_.start(
        {.id = running.id, .words = std::move(words), .output = paths_.output(trial.segment.trial).string()});
  }
  running_[trial.segment] = std::move(running);
}

EndedTrial TrialPlaces::ended(const Segment& segment, const HostedEnd& end) {
  RunningTrial running = std::move(running_.extract(segment).mapped());
  return {.segment = segment,
          .end = end.end,
          .seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - running.start).count(),
          .code = end.code,
          .output = std::move(running.output)};
}

// One part, in turn, so that no trial waits for the outputs of all others.
void TrialPlaces::leave_out_of_one() {
  const auto now = std::chrono::steady_clock::now();
  auto one = running_.upper_bound(left_out_);
  for (size_t i = 0; i < running_.size(); ++i, ++one) {
    if (one == running_.end()) one = running_.begin();
    if (!one->second.output || !one->second.output->look(now)) continue;
    left_out_ = one->first;
    return;
  }
}

std::vector<EndedTrial> TrialPlaces::take_ended() {
  leave_out_of_one();
  std::vector<std::pair<Segment, HostedEnd>> ends;
  for (auto& [segment, running] : running_) {
    if (running.process < 0) continue;
    const auto now = std::chrono::steady_clock::now();
    if (running.asked && !spec_.trains() && now - *running.asked > kMostTimeToEnd)
      launch::signal_group(running.process, SIGKILL);
    const auto end = launch::try_wait_for_end(running.process);
    if (!end) continue;
    launch::signal_group(running.process, SIGKILL);  // what it started and left behind
    ends.push_back({segment, {.end = *end}});
  }
  for (const HostedEnd& end : host_.ends()) {
    const auto one = std::find_if(running_.begin(), running_.end(),
                                  [&](const auto& running) { return running.second.id == end.id; });
    if (one != running_.end()) ends.emplace_back(one->first, end);
  }
  std::vector<EndedTrial> list;
  for (const auto& [segment, end] : ends) list.push_back(ended(segment, end));
  return list;
}

bool TrialPlaces::is_running(int64_t trial) const {
  return std::any_of(running_.begin(), running_.end(),
                     [&](const auto& one) { return one.first.trial == trial; });
}

int64_t TrialPlaces::workers() const {
  int64_t workers = 0;
  for (const auto& [segment, trial] : running_) workers += trial.workers;
  return workers;
}

void TrialPlaces::stop(const Segment& segment) {
  const auto one = running_.find(segment);
  if (one == running_.end()) return;
  RunningTrial& running = one->second;
  if (running.process < 0) {
    host_.stop(running.id);
  } else if (!running.asked && launch::signal_group(running.process, SIGTERM)) {
    running.asked = std::chrono::steady_clock::now();
  }
}

void TrialPlaces::kill_all() {
  for (const auto& [segment, running] : running_) {
    if (running.process < 0) continue;
    launch::kill_group(running.process);
  }
  host_.kill();
  running_.clear();
}

}  // namespace lockstep::sweep
