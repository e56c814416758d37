// Runs a sweep: trials on this machine, side by side, each in its own run folder.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "lockstep/jobs/job_lock.h"
#include "lockstep/sweep/sweep_log.h"

namespace lockstep::sweep {

/// The text of sweep.json; empty where there is no sweep. Throws as read_regular_file.
std::string spec_text(const SweepPaths& paths);

/// What spec_text gave before a program made the spec with which it starts; nothing: it did not look. Another
/// program may have begun or continued the sweep since then.
using FoundSpec = std::optional<std::string>;

struct EngineOptions {
  std::string lockstep{};  ///< the program lockstep, for trials that train
  int64_t cores = 1;       ///< that trials may use
  int64_t memory = 0;      ///< bytes for all trials on threads, or on each GPU; 0: most of what is free
  /// Several programs work on the sweep, also on machines that share its disk: each trains other trials.
  bool shared = false;
  FoundSpec found{};
  /// Whether weights do not depend on the number of workers, so that it may change while a trial goes on.
  bool moves_workers = true;
  std::stop_token stop{};
  /// A trial has begun, paused, ended or was lost (`note` then says why).
  std::function<void(const Trial& trial, const std::string& note)> report{};
  std::function<void(const std::string& note)> note{};  ///< a line for the user that is of no trial
};

struct SweepEnd {
  bool is_complete = false;
  double seconds = 0;
  double idle_seconds = 0;  ///< of places that waited for results while trials were left to begin
  int64_t side_by_side = 0;
  int64_t moved = 0;        ///< how often a trial went on with other workers
  int64_t peak_memory = 0;  ///< bytes of the process of trials on threads; 0: there was none
};

/// The words of a trial's command; without the output folder and what only affects where it runs.
std::vector<std::string> command_of(const SweepPaths& paths, const SweepSpec& spec, int64_t trial,
                                    const Assignment& parameters);

/// Makes or continues the sweep in this folder, and writes its spec, unless EngineOptions::shared. The
/// folder's lock is held meanwhile; call it on a thread that lives as long, for trials end with it. Throws
/// invalid_option if another program works on the sweep or prepares it, but for those with
/// EngineOptions::shared on both sides, and if the spec is not the one that was found; nothing has changed
/// then.
SweepEnd run_sweep(const SweepPaths& paths, const SweepSpec& spec, const EngineOptions& options);

/// Makes or continues a sweep for programs that share it: writes its spec, and removes what earlier ones were
/// asked for. Throws invalid_option, before it writes, if a program works on the sweep that does not share
/// it, or prepares it too, and if the spec is not the one that was found. The caller holds the lock until the
/// jobs are submitted.
jobs::FileLock prepare_shared_sweep(const SweepPaths& paths, const SweepSpec& spec,
                                    const FoundSpec& found = {});

/// Forgets what became of a trial; it begins anew when the sweep goes on, and so do those later ones that get
/// other parameters because of its result. The caller holds the sweep's lock.
void restart_trial(const SweepPaths& paths, LogWriter& log, int64_t trial);

/// The same from any program: returns false if a program works on the sweep, which was asked to do it. Throws
/// as check_is_trial, and invalid_option for a copy (fetched_sweep.h) and if programs share the sweep.
bool restart_now_or_ask(const SweepPaths& paths, int64_t trial);

/// Asks the program that works on the sweep to end a trial with the result that it has.
void ask_to_stop(const SweepPaths& paths, int64_t trial);
/// To end the sweep itself; it can go on later.
void ask_to_stop(const SweepPaths& paths);
/// The same of jobs that wait or are about to begin: each ends before it begins a trial.
void ask_jobs_to_stop(const SweepPaths& paths);

}  // namespace lockstep::sweep
