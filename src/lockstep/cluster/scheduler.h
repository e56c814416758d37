// What a job needs of the system that starts it: the local queue, Slurm, or another one. A scheduler is one
// file that implements Scheduler, and one line in builtin.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stop_token>
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

/// Jobs whose folders are made (jobs::make_job), and the command that runs on the first machine of the
/// allocation of each.
struct Submission {
  std::string name;  ///< [A-Za-z0-9._-]; of no other submission of this user, which is found again by it
  /// Program and words; the folder of the job follows. The machines have this program at this path. The queue
  /// of this machine runs the command in the job's folder instead.
  std::vector<std::string> command{};
  std::vector<std::filesystem::path>
      folders{};                     ///< of the jobs, on a disk that all machines see; at least one
  Profile resources{};               ///< partition, nodes, workers, GPUs, time, modules, environment
  std::vector<std::string> after{};  ///< scheduler's ids of jobs that must have ended with status 0
  bool may_requeue = true;           ///< whether the scheduler may start it again after it took machines away
  int64_t priority = 0;              ///< a job with a higher one starts first, where the scheduler has that
  /// The command runs once for each worker, as a rank (launch/launcher.h), on all machines; the end of one,
  /// or of a machine, does not end the others. Nothing but pools asks for it, and not of the queue of this
  /// machine.
  bool on_each_worker = false;
};

/// Any thread may call it, one at a time. Every function throws Error of code `cluster` when the scheduler
/// cannot be reached or refuses, and ends within about a minute.
class Scheduler {
 public:
  virtual ~Scheduler() = default;

  /// Exactly one job for each folder, whatever the network loses meanwhile. Returns the scheduler's ids.
  virtual std::vector<std::string> submit(const Submission& submission) = 0;
  /// From now on `states` and `find` throw cancelled, without waiting, once a stop is requested.
  void set_stop(std::stop_token stop) { stop_ = std::move(stop); }

  /// In the order of `ids`. Cheap: all programs of a user together ask the scheduler at most every five
  /// seconds.
  virtual std::vector<Standing> states(const std::vector<std::string>& ids) = 0;
  /// The id of a job that was accepted, while the program that submitted it was killed before it had the
  /// answer. name: of the submission; place: of the job's folder in it, from 0. Empty if the scheduler does
  /// not know the job, or if no answer can get lost. As cheap as `states`.
  virtual std::string find(const std::string& /*name*/, int64_t /*place*/) { return ""; }
  /// Ends a job that is running, and takes one that waits from the queue. Nothing for one that is over.
  virtual void cancel(const std::string& id) = 0;
  /// What the scheduler wrote about the job of this folder, without what the command wrote if that goes
  /// elsewhere; at most the last `most_bytes`.
  virtual std::string log(const std::filesystem::path& folder, int64_t most_bytes) = 0;

 protected:
  std::stop_token stop_{};
};

/// The scheduler that the profile names. runner: words that start a program of this machine which runs the
/// jobs of its queue; the folder of the jobs follows. Empty: `queue-runner` of the profile's program. Throws
/// invalid_option for a name that is not known.
std::unique_ptr<Scheduler> make_scheduler(const Profile& profile,
                                          const std::vector<std::string>& runner = {});

std::vector<std::string> scheduler_names();

}  // namespace lockstep::cluster
