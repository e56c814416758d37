// What a worker computes in a step where batch norms normalise over groups of shards.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "lockstep/base/share.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/data/mini_batch_queue.h"
#include "lockstep/train/step/group_meeting.h"
#include "lockstep/train/step/norm_groups.h"
#include "lockstep/train/step/rank_rounds.h"

namespace lockstep::train {

/// Shards that a worker computes at once.
struct ShardUnit {
  std::vector<data::Shard> shards;
  GroupMeeting* meeting = nullptr;  ///< of a group of which other workers compute the other shards
};

/// A worker's part of a mini-batch.
struct StepWork {
  const data::Batch& batch;
  std::vector<Range> groups;        ///< of the whole mini-batch
  std::vector<ShardUnit> placed{};  ///< its parts of spanning groups, in the order in which it computes them
  std::vector<data::Shard> free{};  ///< shards of whole groups, which any worker may compute
};

/// Shared by the workers of a process. In each step every worker calls divide() or give_up().
class StepGroups {
 public:
  struct Options {
    int64_t group_samples = 0;  ///< as in NormBatch
    int64_t rank = 0;
    Deal deal = {};            ///< of the shards
    bool spans_ranks = false;  ///< some mini-batch has a group that spans ranks
  };
  /// comm: of the ranks. If groups span ranks, nothing else may use it between the first divide() or
  /// give_up() of a step and end_step().
  StepGroups(Options options, comm::Communicator& comm);

  /// Whether a mini-batch may have a group of several shards.
  bool any() const { return options_.group_samples > 0; }
  /// From the next step on each shard is a group: it is computed in pieces.
  void normalize_pieces() { options_.group_samples = 0; }

  /// worker: of the workers of this process. Any thread.
  StepWork divide(const data::Batch& batch, int64_t worker);

  /// A worker does not compute its part of this step: those that wait for it, on any rank, throw cancelled.
  void give_up(int64_t worker);
  /// The same after a failure that ends the run, in a step or not.
  void fail();
  bool given_up() const { return given_up_; }
  /// After the last worker's part of a step, in a barrier.
  void end_step();

 private:
  GroupMeeting& meeting_of(const SpanningGroup& group, int64_t shard_count);
  void break_meetings();
  void begin_rounds(const RankRounds::OwnGroups& own);

  Options options_;
  std::atomic<bool> given_up_{false};
  std::mutex mutex_;
  std::map<int64_t, std::unique_ptr<GroupMeeting>> meetings_;  // of this step, by the group's first shard
  std::unique_ptr<RankRounds> rounds_;                         // null: no group spans ranks
  bool begun_ = false;                                         // by the first worker, in this step
};

}  // namespace lockstep::train
