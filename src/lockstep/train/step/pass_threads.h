// Threads for a worker that computes several passes of one group of batch norms: each pass stops at each
// batch norm until the others are there. The threads take turns, so that the worker uses one core.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "lockstep/train/step/group_meeting.h"
#include "lockstep/train/step/shard_runner.h"

namespace lockstep::train {

/// Belongs to one worker.
class PassThreads {
 public:
  using MakeRunner = std::function<std::unique_ptr<ShardRunner>()>;

  /// make_runner: another runner like the worker's own, made and destroyed on the thread that uses it.
  explicit PassThreads(MakeRunner make_runner);
  ~PassThreads();

  /// Runs pass(i, runner, turn) for each i below `count`: the first on this thread with `own`, each other one
  /// on a thread with its own runner. A pass has its turn when it begins and when it ends; one of them at a
  /// time has it. If one fails, give_up() must make the others end. Rethrows the first failure.
  using Pass = std::function<void(size_t index, ShardRunner& runner, Turn& turn)>;
  void run(size_t count, ShardRunner& own, const Pass& pass, const std::function<void()>& give_up);

 private:
  class Helper;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::train
