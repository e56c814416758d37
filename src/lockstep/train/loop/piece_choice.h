// Workers that are not equally fast, as on efficiency cores or beside other programs: how many of its shards
// a worker takes at once.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/train/options/plan.h"
#include "lockstep/train/step/shard_queue.h"

namespace lockstep::train {

/// Measures how long each worker of this process computes in the steps of a window. Where they differ,
/// workers halve their own shards for a window, so that others can take over the rest, and go on so if steps
/// are shorter. From time to time this is judged again. Of one thread.
class PieceChoice {
 public:
  /// Nothing is measured with one worker, on GPUs, with averaging, and where no shards are taken over.
  PieceChoice(const Plan& plan, Share rank, Takeover takeover);

  /// After a step with this many samples that took this long. seconds_of_workers: as in
  /// RankBalance::seconds_of_workers(). Returns how the next step is computed.
  OwnShards end_step(const std::vector<double>& seconds_of_workers, int64_t samples, double seconds);

 private:
  void end_window();

  const int64_t samples_;                // of a whole mini-batch
  std::vector<int64_t> shards_;          // of each worker, of a whole mini-batch; empty: nothing is measured
  OwnShards now_ = OwnShards::together;  // in this window
  bool warm_ = false;                    // the first window is over
  bool tried_ = false;                   // in the window before this one
  int64_t steps_ = 0;                    // of this window, with a whole mini-batch
  double passed_ = 0;                    // seconds of all steps of this window
  double slowest_ = 0;                   // sum over steps: seconds of a shard on the slowest worker
  double average_ = 0;                   // the same, on average
  double computing_ = 0;                 // sum over steps: seconds of the last worker
  double together_ = 0;                  // computing of a step in the last window of own shards together
  int64_t wait_ = 0;                     // windows until this is judged again
  int64_t next_wait_ = 2;
};

}  // namespace lockstep::train
