// The parts of the scheduler `slurm`: what it tells Slurm's commands, and what it reads from them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/cluster/scheduler.h"

namespace lockstep::cluster {

/// The seconds of a time limit as sbatch reads it: M, M:S, H:M:S, D-H, D-H:M or D-H:M:S. Nothing for other
/// words, such as UNLIMITED.
std::optional<int64_t> seconds_of_time_limit(std::string_view time);

/// The options of sbatch, without the script.
std::vector<std::string> sbatch_options(const Submission& submission);

/// Whether this sbatch, by what it prints for --version, has --requeue=expedite.
bool can_expedite(std::string_view version);

/// Set by the script for the program that it becomes: a signal that came before, USR1 or TERM.
inline constexpr const char* kEarlySignal = "LOCKSTEP_SIGNAL";

/// What sbatch reads on standard input.
std::string batch_script(const Submission& submission);

/// The option of srun with which its processes have the variables of their starter, also at a site where jobs
/// are submitted with --export=NONE, which srun would take over.
inline constexpr const char* kExportAll = "--export=ALL";

/// The processes of the step in which a job's command runs: srun with its options.
std::vector<std::string> srun_words(const Profile& profile);

/// PENDING, RUNNING, ... in the words of all schedulers.
Phase phase_of_slurm(std::string_view word, std::string_view reason);

/// The value of a key in what `scontrol show job --oneliner` says of a job; empty without it.
std::string value_in_job(std::string_view said, const std::string& key);

/// Whether somebody cancels the job with scancel, by what scontrol says while the job's script still runs:
/// Slurm is ending it, and no limit, no failure and no other job is the reason. restarts: those before the
/// start of this script.
bool is_being_cancelled(std::string_view said, std::string_view restarts);

/// Reads lines "ID|STATE|REASON|NODES|NAME" of squeue.
struct QueueLine {
  Standing standing;
  std::string name;
};
std::map<std::string, QueueLine> read_queue(std::string_view text);

/// The format that makes squeue write such lines.
inline constexpr const char* kQueueFormat = "%i|%T|%r|%N|%j";

/// What squeue says of this user's jobs. All programs of the user share one answer, in a file of the user's
/// caches, for five seconds. Throws cluster, and cancelled at a stop.
std::map<std::string, QueueLine> shared_queue(const std::stop_token& stop = {});

/// Adds a job that was just submitted to the shared answer.
void add_to_shared_queue(const std::string& id, const std::string& name);

/// Makes the next shared_queue ask.
void forget_shared_queue();

std::unique_ptr<Scheduler> make_slurm(const Profile& profile, const std::vector<std::string>& runner);
std::unique_ptr<Scheduler> make_slurm_step(const Profile& profile, const std::vector<std::string>& runner);

}  // namespace lockstep::cluster
