// The trials that are trained now, on threads of one process or each as a process.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lockstep/sweep/internal/trial_host.h"
#include "lockstep/sweep/internal/trial_output.h"
#include "lockstep/sweep/internal/trial_process.h"

namespace lockstep::sweep {

struct RunningTrial {
  std::chrono::steady_clock::time_point start{};
  int64_t workers = 1;
  pid_t process = -1;                                            ///< of a trial that is a process
  std::optional<std::chrono::steady_clock::time_point> asked{};  ///< when that process was asked to stop
  int64_t id = -1;                                               ///< of one on a thread
  std::optional<TrialOutput> output{};                           ///< of a process
};

struct EndedTrial {
  Segment segment{};
  launch::End end{};
  double seconds = 0;
  std::string code{};  ///< of the error with which it ended, if a process with other trials has told it
  std::optional<TrialOutput> output{};  ///< of a process
};

/// One thread, with which the trials end.
class TrialPlaces {
 public:
  TrialPlaces(SweepPaths paths, SweepSpec spec, const std::string& lockstep, int64_t memory);

  /// alone: as a process of its own, whatever the sweep asks for.
  void start(const TrialStart& trial, bool alone);
  const std::map<Segment, RunningTrial>& running() const { return running_; }
  bool is_running(int64_t trial) const;
  int64_t workers() const;  ///< of the running trials
  std::vector<EndedTrial> take_ended();

  /// Asks a trial to stop, and all processes that it has started; one that trains saves a checkpoint first.
  /// To ask again does nothing: many programs take a second signal as one that they must not save. Another
  /// program than train is killed if it still runs after a minute.
  void stop(const Segment& segment);
  void kill_all();  ///< with the processes that they have started

  int64_t peak_memory() const { return host_.peak_memory(); }
  std::string take_note() { return host_.take_note(); }  ///< TrialHost::take_note

 private:
  void leave_out_of_one();
  EndedTrial ended(const Segment& segment, const HostedEnd& end);

  SweepPaths paths_;
  SweepSpec spec_;
  TrialHost host_;
  std::map<Segment, RunningTrial> running_;
  int64_t next_id_ = 0;
  Segment left_out_{};  // whose output was shortened last
};

}  // namespace lockstep::sweep
