// Ranks that are not equally fast: their speeds are measured, and shards move from slow ones to fast ones.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/base/share.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/train/options/plan.h"

namespace lockstep::train {

/// The shards of each rank with which the slowest needs least time. Each rank has at least one group, and no
/// group is on two ranks.
///   groups            of the shards of a mini-batch, in order; at least as many as ranks
///   seconds_of_shard  of each rank, above 0
std::vector<int64_t> fastest_parts(const std::vector<Range>& groups,
                                   const std::vector<double>& seconds_of_shard);

/// Measures how long each rank computes in the steps of a window. A window is a number of steps that all
/// ranks know, at least some seconds long, and each is longer than the one before it. Shared by the workers
/// of a process.
class RankBalance {
 public:
  /// Nothing is measured if the deal decides the weights, and on GPUs (their time is not known before a step
  /// ends).
  ///   workers_here  of this process
  RankBalance(const Plan& plan, Share rank, int64_t workers_here);

  /// This worker of the process has had its part of a step after this time, with the wait for samples,
  /// without that for other workers. Any thread.
  void note_worker(int64_t worker, double seconds) { computed_.at(static_cast<size_t>(worker)) = seconds; }

  /// What note_worker() was told last, by the workers of this process.
  const std::vector<double>& seconds_of_workers() const { return computed_; }

  /// After a step with this many samples that took this long, on the first worker of each rank, while the
  /// others of its process wait. At the end of a window the ranks exchange what they measured.
  void end_step(comm::Communicator& comm, int64_t samples, double seconds);

  /// Deal::loads with which steps are a tenth shorter or more, after the last window; empty: there are none.
  /// Equal on all ranks.
  const std::vector<int64_t>& better_loads() const { return better_loads_; }
  /// What they change, for the user.
  std::string text() const;

 private:
  void end_window(comm::Communicator& comm);
  void judge(const std::vector<double>& seconds_of_rank);
  int64_t next_window_steps() const;

  const Share rank_;
  const int64_t samples_;         // of a whole mini-batch
  std::vector<Range> groups_;     // of its shards; each stays on one rank
  std::vector<int64_t> parts_;    // of each rank, shards; empty: nothing is measured
  std::vector<double> computed_;  // seconds, by each worker of this process in the step under way
  int64_t window_steps_;          // of this window
  int64_t window_ = 0;            // windows before it
  int64_t counted_ = 0;           // steps of this window
  int64_t whole_ = 0;             // of them those with a whole mini-batch
  double computing_ = 0;          // seconds of these
  double passed_ = 0;             // seconds of all steps of this window
  double expected_ = 1;           // time of a step with better_loads_, as a part of the present one
  std::vector<int64_t> better_loads_;
};

}  // namespace lockstep::train
