// What a job needs of the system that starts it: the local queue, Slurm, or another one. A scheduler is one
// file that implements Scheduler, and one line in builtin.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/cluster/profile.h"

namespace lockstep::cluster {

/// Where an attempt of a job stands, in the words that all schedulers share.
enum class Phase {
  queued,     ///< waits for workers, for another job, or for its time
  running,    ///< its command was started, or is about to be
  ended,      ///< its command ended with status 0
  failed,     ///< it ended in another way, or never can start
  cancelled,  ///< somebody cancelled it
  unknown     ///< the scheduler does not know it, or not any longer: its folder tells
};
constexpr std::array<const char*, 6> enum_names(Phase) {
  return {"queued", "running", "ended", "failed", "cancelled", "unknown"};
}

struct Standing {
  Phase phase = Phase::unknown;
  std::string word{};    ///< the scheduler's own: "PENDING"
  std::string reason{};  ///< why it waits or how it ended, in the scheduler's words; may be empty
  std::string nodes{};   ///< where it runs: "node[1-2]"; may be empty
};

/// One command, to be run once on the first machine of an allocation.
struct Submission {
  std::string name;  ///< [A-Za-z0-9._-]; of no other job of this user: a submission is found again by it
  std::vector<std::string> command{};  ///< program and words; the machines have this program at this path
  std::filesystem::path folder{};      ///< of the job, on a disk that all machines see; its log is kept there
  Profile resources{};                 ///< partition, nodes, workers, GPUs, time, modules, environment
  std::vector<std::string> after{};    ///< scheduler's ids of jobs that must have ended with status 0
  bool may_requeue = true;  ///< whether the scheduler may start it again after it took machines away
  int64_t priority = 0;     ///< a job with a higher one starts first, where the scheduler has that
  /// Folders of an array: the command runs once for each, with the folder as one more word at its end. Empty:
  /// one job, without that word.
  std::vector<std::filesystem::path> array{};
};

/// Any thread may call it, one at a time. Every function throws Error of code `cluster` when the scheduler
/// cannot be reached or refuses, and ends within about a minute.
class Scheduler {
 public:
  virtual ~Scheduler() = default;

  /// Exactly one job, whatever the network loses meanwhile. Returns the scheduler's id; the ids of an array's
  /// elements are "ID_0", "ID_1", ...
  virtual std::string submit(const Submission& submission) = 0;
  /// In the order of `ids`. Cheap: all programs of a user together ask the scheduler at most every five
  /// seconds.
  virtual std::vector<Standing> states(const std::vector<std::string>& ids) = 0;
  /// Ends a job that is running, and takes one that waits from the queue. Nothing for one that is over.
  virtual void cancel(const std::string& id) = 0;
  /// What scheduler and script wrote, without what the command wrote if that goes elsewhere; at most the last
  /// `most_bytes`.
  virtual std::string log(const Submission& submission, int64_t most_bytes) = 0;
};

/// The scheduler that the profile names. Throws invalid_option for a name that is not known.
std::unique_ptr<Scheduler> make_scheduler(const Profile& profile);

std::vector<std::string> scheduler_names();

}  // namespace lockstep::cluster
