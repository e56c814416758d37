// A task as a job: it waits in a queue, runs without this program, and is asked for its result later, also by
// another program.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "lockstep/jobs/job_list.h"
#include "lockstep/pool/task.h"

namespace lockstep::pool {

/// Options of a job.
struct BatchOptions {
  std::string profile{};  ///< where it runs; empty: the user's default profile
  int64_t workers = 0;    ///< ranks of its group; 0: those of the profile, one in the queue of this machine
  std::string name{};     ///< by which commands find it; empty: that of the task
  std::vector<std::string> after{};  ///< ids of jobs that must have ended well before
  int64_t priority = 0;              ///< of jobs that wait, those with a higher number start first
  int64_t memory = 0;                ///< bytes that it uses; 0: not known
  bool requeue = false;              ///< start it again after it was killed
};

/// What jobs of all tasks have in common. A handle: copies are of one job. It holds no process: the job goes
/// on when the program ends.
class AnyBatchJob {
 public:
  explicit AnyBatchJob(jobs::JobPaths paths) : paths_(std::move(paths)) {}
  /// The job of an id or a name, as `lockstep job` takes it: "12", or "far:12" behind the login node of a
  /// profile. Throws not_found for one of this machine that is not there.
  explicit AnyBatchJob(const std::string& id);

  /// As `lockstep job` takes it.
  std::string id() const { return there_.empty() ? paths_.id() : there_; }
  /// State, progress and times now.
  jobs::JobView show() const;
  bool done() const;
  /// Waits until it is over; false if it is not within the time.
  bool wait(std::chrono::milliseconds timeout) const;
  void wait() const;
  /// Ends it. False if it was over before.
  bool cancel() const;
  /// What its newest attempt has written.
  std::string diary() const;
  /// A value that it has put out (jobs::JobStore); nothing if there is none of the name.
  std::optional<Json> value(const std::string& name) const;

 protected:
  /// Waits for the end. Throws cancelled, or an Error with the reason.
  Packet result() const;

 private:
  bool is_there() const { return !there_.empty(); }

  jobs::JobPaths paths_;
  std::string there_;  ///< "far:12": behind a login node; empty: on the disk of this machine
};

/// The job of a task whose result is an Out.
template <class Out>
class BatchJob : public AnyBatchJob {
 public:
  explicit BatchJob(AnyBatchJob job) : AnyBatchJob(std::move(job)) {}
  explicit BatchJob(jobs::JobPaths paths) : AnyBatchJob(std::move(paths)) {}
  explicit BatchJob(const std::string& id) : AnyBatchJob(id) {}
  /// Waits for the result of rank 0. Throws cancelled if it was cancelled, else the reason of its failure.
  Out get() const {
    if constexpr (std::is_void_v<Out>) {
      result();
    } else {
      return unpack<Out>(result());
    }
  }
};

/// Submits the task of this name. The program's main must be `run`, with the task in its list. On a cluster
/// its machines must have the same build of the program at the same path, and the folder of the jobs. Behind
/// a login node `lockstep batch` submits it.
AnyBatchJob submit_task(const std::string& task, const Packet& input, const BatchOptions& options);

}  // namespace lockstep::pool
