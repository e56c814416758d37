// The exchange between ranks for groups of batch norms that span them.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/share.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/train/step/group_meeting.h"

namespace lockstep::train {

/// In every step every rank calls begin_step(), and at its end end_step(). In between a thread
/// gathers the ranks' sums, round after round, first for the groups of turn 0, then for those of turn 1
/// (SpanningGroup). A rank that has no group of a turn takes part in its rounds all the same. Nothing else
/// may use `comm` in between.
class RankRounds {
 public:
  static constexpr size_t kTurns = 2;
  /// Of this rank; a rank has at most one group in a turn.
  using OwnGroups = std::array<std::optional<Range>, kTurns>;

  /// on_give_up: called when another rank has given up the step, from the thread.
  RankRounds(comm::Communicator& comm, std::function<void()> on_give_up);
  ~RankRounds();
  RankRounds(const RankRounds&) = delete;
  RankRounds& operator=(const RankRounds&) = delete;

  /// Nothing else uses `comm` from now on.
  void begin_step(const OwnGroups& own);
  /// What this rank's passes give to the group of a turn, and what all ranks give to it. Throws cancelled if
  /// a rank has given up the step, and what the exchange threw.
  std::vector<NodeSums> exchange(size_t turn, std::vector<NodeSums> own);
  /// The passes of this rank in the group of a turn have ended.
  void leave(size_t turn);
  /// This rank does not compute the step. Any thread, also before begin_step().
  void give_up();
  /// Waits until all ranks are through. Throws what the exchange threw.
  void end_step();

 private:
  enum class State { idle, open, over };
  struct OwnTurn {
    std::optional<Range> group;
    std::optional<std::vector<NodeSums>> given;  // to the round under way
    std::optional<std::vector<NodeSums>> taken;  // from it
    bool left = false;
  };
  void serve();
  void run_step(std::unique_lock<std::mutex>& lock);
  bool run_round(size_t turn, std::unique_lock<std::mutex>& lock);
  at::Tensor message_of(const OwnTurn& own) const;

  comm::Communicator& comm_;
  const std::function<void()> on_give_up_;
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::idle;
  std::array<OwnTurn, kTurns> turns_;
  bool given_up_ = false;  // by this rank
  bool dropped_ = false;   // as all ranks know
  bool closing_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace lockstep::train
