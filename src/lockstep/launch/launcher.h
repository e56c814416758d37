// What a launcher (torchrun, lockstep run, mpirun, srun) tells its processes in environment variables.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>

namespace lockstep::launch {

/// This process's place among the processes of a launcher. The names are torchrun's. mpirun and srun have
/// others (launcher.cpp) and do not name a meeting place. Without MASTER_ADDR it is this machine if all ranks
/// are on it, else the first machine of Slurm's list (srun's, or that of mpirun in an allocation). Without
/// MASTER_PORT the port is derived from the job's name, which MPICH does not give.
struct Launch {
  int64_t rank = 0;        ///< RANK
  int64_t size = 1;        ///< WORLD_SIZE
  int64_t local_rank = 0;  ///< LOCAL_RANK: among the ranks on this machine
  int64_t local_size = 1;  ///< LOCAL_WORLD_SIZE
  std::string address;     ///< MASTER_ADDR: where the ranks meet
  /// SLURM_LAUNCH_NODE_IPADDR: where srun ran, often the first machine; empty if not Slurm's `address`.
  std::string submitter{};
  uint16_t port = 0;  ///< MASTER_PORT
  bool agent_store =
      false;            ///< TORCHELASTIC_USE_AGENT_STORE: the launcher itself listens there, else rank 0 does
  int64_t attempt = 0;  ///< TORCHELASTIC_RESTART_COUNT
  std::string interface {
  };  ///< GLOO_SOCKET_IFNAME: the network interface that other machines reach; empty: the one towards address
  /// LOCKSTEP_SECRET: known only to the ranks; seals what they tell each other; empty: none.
  std::string secret{};
  /// LOCKSTEP_STOPPED_STATUS: exit status of a rank that a signal stopped; -1: 128 and the signal's number.
  int stopped_status = -1;
  /// LOCKSTEP_FAST_MULTINODE=on: ranks of several machines must send gradients from GPU to GPU, or not train.
  bool needs_gpus = false;
  int64_t gpus_here = 0;  ///< SLURM_GPUS_ON_NODE: GPUs of the job on this machine; 0: not told
  int lost_status = 1;    ///< LOCKSTEP_LOST_STATUS: exit status of a rank that ends because another was lost
};

/// Reads the variables through `variable` (getenv, or a test's table). Nothing if no launcher gave a rank and
/// a number of ranks, and in a step of Slurm's with one task, unless Lockstep has started it as a job or a
/// command's rank: it may be a shell (srun --pty bash). Throws invalid_option naming a variable that is
/// missing or has an impossible value.
std::optional<Launch> read_launch(const std::function<const char*(const char* name)>& variable);

/// The variables in which a launcher has told this process its place, where the ranks meet and how they end;
/// none if none of them gave a rank. A command that such a process gives to others (a job) is no rank.
std::set<std::string, std::less<>> launcher_variables(
    const std::function<const char*(const char* name)>& variable);

/// Whether srun has started this process, or the shell in which it was started.
bool is_in_slurm_step(const std::function<const char*(const char* name)>& variable);

}  // namespace lockstep::launch
