// The client's side of a program: the pool that is open, and how to open another one.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/pool/pool.h"

namespace lockstep::pool {

class LaunchedRanks;

/// Has one pool at most, and closes it at its end. Any thread may call any member, but a task may only ask
/// for the current pool.
class Session {
 public:
  /// A session for pools of threads. One that may also open pools of processes is what `run` gives to the
  /// client: it is `run` that makes this program a worker when it is started again.
  Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  /// The pool that is open, if it is what was asked for (no kind, 0 workers, no GPUs and no environment ask
  /// for nothing); else closes it and opens one. Waits until all workers are ready; a line on standard error
  /// says that it starts, and one that it is connected. Under a launcher the workers are its ranks, one
  /// process each, whatever kind is asked for. Throws device for GPUs that are not there, with those that
  /// are; what a worker that could not start ended with, or timeout; under a launcher also for another number
  /// of workers than its ranks.
  Pool open_pool(const PoolOptions& options = {});
  /// The pool that is open; opens nothing.
  std::optional<Pool> current_pool() const;
  /// The pool that is open, else the default one, opened now.
  Pool pool();
  void close_pool();

  /// What stands behind the program's name.
  const std::vector<std::string>& arguments() const { return arguments_; }

 private:
  friend int run_client(std::vector<std::string> arguments, LaunchedRanks* ranks,
                        const std::function<int(Session&)>& client);
  Session(std::vector<std::string> arguments, LaunchedRanks* ranks)
      : arguments_(std::move(arguments)), ranks_(ranks), processes_allowed_(true) {}

  std::mutex opening_;        ///< held while a pool is opened
  mutable std::mutex mutex_;  ///< held for pool_ alone
  std::optional<Pool> pool_;
  PoolOptions opened_with_;
  std::vector<std::string> arguments_;
  LaunchedRanks* ranks_ = nullptr;  ///< under a launcher
  bool processes_allowed_ = false;
};

}  // namespace lockstep::pool
