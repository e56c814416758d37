// Where the passes that compute the shards of one group of batch norm meet, at each batch norm.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/share.h"
#include "lockstep/kernels/norm_groups.h"

namespace lockstep::train {

/// The sums over the shards of a node of the tree.
struct NodeSums {
  Range shards;
  kernels::NormSums sums;
};

/// The sums over `shards`, a node of the tree, from those of nodes that make it up.
kernels::NormSums folded(const std::vector<NodeSums>& nodes, Range shards, kernels::NormExchange::Add add);

/// A worker's permission to compute, if it runs several passes in threads that take turns.
using Turn = std::unique_lock<std::mutex>;

/// The passes may be of one worker or of several workers of a process.
class GroupMeeting {
 public:
  /// The shards of other ranks.
  struct OtherRanks {
    /// Gives the nodes of this process, returns those of all ranks. Called by one pass while the others wait.
    std::function<std::vector<NodeSums>(std::vector<NodeSums> own)> exchange;
    std::function<void()> leave;  ///< all passes have ended
  };

  /// own: of the group's shards those of this process. `others` is needed if these are not all.
  GroupMeeting(Range group, Range own, OtherRanks others = {});

  /// All passes that wait, and those that come, throw cancelled.
  void give_up();

  /// One pass, which computes a node of the tree. A pass that ends without a batch norm that another pass
  /// waits at ends the meeting: invalid_option.
  class Pass final : public kernels::NormExchange {
   public:
    /// turn: given back while the pass waits; may be null.
    Pass(GroupMeeting& meeting, Range node, Turn* turn) : meeting_(meeting), node_(node), turn_(turn) {}
    ~Pass() override;
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;
    kernels::NormSums fold(kernels::NormSums own, Add add) override;
    /// How long it has kept its worker waiting for others so far, seconds.
    double waited() const { return waited_; }

   private:
    GroupMeeting& meeting_;
    const Range node_;
    Turn* const turn_;
    double waited_ = 0;
  };

 private:
  kernels::NormSums fold(NodeSums own, kernels::NormExchange::Add add, Turn* turn, double& waited);
  void finish_round(std::unique_lock<std::mutex>& lock, kernels::NormExchange::Add add, double& waited);
  void leave(Range node);
  void wait_for_round(int64_t round, std::unique_lock<std::mutex>& lock, Turn* turn);
  void break_with(Error error);

  const Range group_;
  const Range own_;
  const OtherRanks others_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<int64_t> rounds_{0};  // that are finished
  std::atomic<bool> broken_{false};
  std::optional<Error> error_;
  std::vector<NodeSums> nodes_;  // of the round under way
  int64_t arrived_ = 0;          // shards
  int64_t left_ = 0;             // shards whose passes have ended
  kernels::NormSums result_;     // of the last round; no round ends before all passes have read it
};

}  // namespace lockstep::train
