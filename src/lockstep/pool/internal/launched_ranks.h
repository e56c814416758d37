// A pool whose workers a launcher has started (torchrun, mpirun, srun, lockstep run). Rank 0 runs the client.
//
// Ranks on several machines are members of a pool as on a cluster (pool_head.h): rank 0 starts the head and
// tells the ranks where it is. They need a secret of their launcher to keep that among themselves.
//
// On one machine the other ranks are workers of rank 0's pools, and so is a process that rank 0 starts as its
// own worker. They communicate as in any pool of processes, through sockets without a name: rank 0 makes a
// pair for each pool and passes one end to the rank, through a socket that the ranks keep from their start to
// rank 0's end. That socket is connected by an abstract name that is drawn for the launch, and both ends ask
// the kernel whether the other belongs to the same user. The name is a value of the store where ranks meet,
// which other users cannot write (comm/rank_word.h).
#pragma once

#include <vector>

#include "lockstep/launch/launcher.h"
#include "lockstep/comm/patience.h"
#include "lockstep/pool/internal/channel.h"
#include "lockstep/pool/internal/cluster_line.h"
#include "lockstep/pool/internal/process.h"
#include "lockstep/pool/pool_options.h"
#include "lockstep/pool/task.h"

namespace lockstep::pool {

/// Rank 0's side. One thread at a time.
class LaunchedRanks {
 public:
  /// Waits until all other ranks are here. Throws communication, also when the time is over and when ranks on
  /// several machines have no secret.
  explicit LaunchedRanks(const launch::Launch& launch, const comm::Waiting& waiting = {});
  /// Lets the other ranks end.
  ~LaunchedRanks();
  LaunchedRanks(const LaunchedRanks&) = delete;
  LaunchedRanks& operator=(const LaunchedRanks&) = delete;

  int64_t size() const { return static_cast<int64_t>(ranks_.size()); }
  /// To the ranks, if they are on several machines; else null.
  std::shared_ptr<ClusterLine> line() const { return line_; }

  /// The pool to open for these options: always one of processes, of all ranks. Throws invalid_option for
  /// another number of workers, and for an environment, which only the launcher can give.
  PoolOptions resolve(PoolOptions asked) const;

  /// Worker i of a pool: the process of rank i, and for rank 0 a process that the calling thread starts.
  /// Throws communication if the rank has ended.
  StartedProcess enlist(size_t rank);

 private:
  struct Rank {
    pid_t process = 0;
    std::unique_ptr<Channel> channel;  ///< empty for rank 0
  };
  void wait_on_one_machine(const launch::Launch& launch, const comm::Waiting& waiting);
  void wait_on_several(const launch::Launch& launch, const comm::Waiting& waiting);
  void admit(Descriptor socket);
  int64_t first_missing() const;  ///< size() if all are here
  bool all_here() const { return first_missing() == size(); }

  std::vector<Rank> ranks_;
  std::shared_ptr<ClusterLine> line_{};
  pid_t member_ = 0;  ///< the process that is a member in rank 0's place
};

/// The work of a rank other than 0: it works for rank 0's pools until rank 0 ends. Throws communication if it
/// cannot reach rank 0, cancelled when rank 0 dies.
void work_under(const launch::Launch& launch, const TaskTable& tasks, const comm::Waiting& waiting = {});

}  // namespace lockstep::pool
