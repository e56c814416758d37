// The queue of this machine, without a daemon. Jobs wait in order of priority and number while workers or
// memory are short. A runner is a process that runs one job after the other; whoever finds that a job may
// start makes one. What waits and what runs is listed in two folders, which are only an index: the truth is
// in the job folders.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/jobs/job_state.h"
#include "lockstep/jobs/local_attempt.h"

namespace lockstep::jobs {

/// What the jobs of this machine may use together.
struct QueueLimits {
  int64_t workers = 0;
  int64_t memory = 0;  ///< bytes
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("workers", self.workers, "workers of all jobs that run at a time");
    field("memory", self.memory, "bytes of all jobs that run at a time");
  };
};

/// The machine's cores that this process may use, and its memory.
QueueLimits machine_limits();

/// A value. Several processes may use the same queue. Every function may throw io.
class LocalQueue {
 public:
  /// root: of the jobs.
  explicit LocalQueue(std::filesystem::path root);

  QueueLimits limits() const;
  /// 0: as before.
  void set_limits(const QueueLimits& limits) const;

  /// While it exists, others know that jobs are being made here. Whoever finds that its process is gone looks
  /// for a job that was made and not put into the queue.
  class Making {
   public:
    explicit Making(const LocalQueue& queue);
    ~Making();
    Making(const Making&) = delete;
    Making& operator=(const Making&) = delete;

   private:
    std::filesystem::path sign_;
  };

  /// Whether no job of this machine waits or runs.
  bool is_empty() const;

  /// Puts a job into the queue. It starts at the next wake.
  void add(const JobPaths& paths) const;
  /// What the processes that run jobs have to say.
  std::filesystem::path log_file() const { return folder_ / "log"; }
  /// Ends a job, and waits until it is over. Returns false if it was over before.
  bool cancel(const JobPaths& paths) const;

  /// Settles jobs whose attempt is gone without a result, and puts those into the queue that are in no list.
  /// Removes what processes that are gone were making or deleting. Reads all jobs.
  void tidy() const;
  /// Starts a runner if a job may start. program: its first words; the root follows.
  void wake(const std::vector<std::string>& program) const;
  /// Runs jobs until none may start. See run_local_attempt for what it does to the process.
  void run(const std::vector<std::string>& program);

 private:
  class Moment;

  std::filesystem::path root_;
  std::filesystem::path folder_;  // of this machine's queue
};

}  // namespace lockstep::jobs
