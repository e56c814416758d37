// The client's side of a program: the open pool, and how to open another one.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/cluster/cluster.h"
#include "lockstep/pool/batch_job.h"
#include "lockstep/pool/pool.h"

namespace lockstep::pool {

class LaunchedRanks;
class PoolTrace;

/// Has at most one pool, and closes it at its end. Any thread may call any member, but a task may only ask
/// for the current pool.
class Session {
 public:
  /// A session for pools of threads. The session that `run` gives to the client may also open pools of
  /// processes, because `run` makes this program a worker when it is started again.
  Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  /// The open pool, if it has what was asked for (no profile, no kind, 0 workers, no GPUs and no environment
  /// ask for nothing). Otherwise closes it and opens a new pool. Waits until all workers are ready; prints a
  /// line on standard error when the pool starts and one when it is connected. Under a launcher the workers
  /// are its ranks, one process each, whatever kind is asked for. On a cluster it waits as long as the job
  /// waits in the queue, and shows its state. In a job no other one is submitted: the pool has its workers on
  /// this machine. Throws device for missing GPUs, with a list of the present ones; the error of a worker
  /// that could not start, or timeout; cluster if the scheduler does not take the job; and under a launcher
  /// invalid_option for another number of workers than its ranks.
  Pool open_pool(const PoolOptions& options = {});
  /// The open pool, if there is one; opens nothing.
  std::optional<Pool> current_pool() const;
  /// The open pool, else the default one, which it opens.
  Pool pool();
  void close_pool();

  /// Puts a task into the queue of a profile: it runs on a group of options.workers, without this program,
  /// which may end. It needs the session that `run` gives to the client. Throws invalid_option and not_found
  /// for the options.
  template <auto function>
  BatchJob<typename Task<function>::Output> batch(Task<function> task,
                                                  const typename Task<function>::Input& input = {},
                                                  const BatchOptions& options = {}) {
    check_may_submit();
    return BatchJob<typename Task<function>::Output>(
        submit_task(std::string(task.name), pack(input), options));
  }

  /// The cluster of a profile; empty: of the default one. Throws not_found with the names that there are.
  cluster::Cluster cluster(const std::string& profile = {}) const {
    return cluster::Cluster(cluster::Profiles::of_user().find(profile));
  }

  /// The arguments after the program's name.
  const std::vector<std::string>& arguments() const { return arguments_; }

 private:
  friend int run_client(std::vector<std::string> arguments, LaunchedRanks* ranks,
                        const std::function<int(Session&)>& client);
  Session(std::vector<std::string> arguments, LaunchedRanks* ranks);

  void check_may_submit() const;
  std::unique_ptr<PoolTrace> trace_of(const Pool& pool, const PoolOptions& options) const;

  std::mutex opening_;        ///< held while a pool is opened
  mutable std::mutex mutex_;  ///< protects pool_ and trace_ only
  std::optional<Pool> pool_;
  std::unique_ptr<PoolTrace> trace_;
  PoolOptions opened_with_;
  std::vector<std::string> arguments_;
  LaunchedRanks* ranks_ = nullptr;  ///< under a launcher
  bool processes_allowed_ = false;
};

}  // namespace lockstep::pool
