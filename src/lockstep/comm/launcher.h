// What a launcher (torchrun, lockstep run, mpirun, srun) tells the processes that it starts, in environment variables.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace lockstep::comm {

/// This process's place among those that a launcher started. The names are torchrun's; mpirun and srun have others (launcher.cpp), and say nothing of a
/// meeting place: without MASTER_ADDR that is this machine where all ranks are on it, else the first one of Slurm's list (of srun's, or of an mpirun's in its allocation), and without MASTER_PORT a port
/// that follows from the job's name, which MPICH does not tell.
struct Launch {
  int64_t rank = 0;              ///< RANK
  int64_t size = 1;              ///< WORLD_SIZE
  int64_t local_rank = 0;        ///< LOCAL_RANK: among the ranks on this machine
  int64_t local_size = 1;        ///< LOCAL_WORLD_SIZE
  std::string address;           ///< MASTER_ADDR: where the ranks meet
  std::string submitter{};       ///< SLURM_LAUNCH_NODE_IPADDR: where srun ran, often the first machine; empty where `address` is not of Slurm's list
  uint16_t port = 0;             ///< MASTER_PORT
  bool agent_store = false;      ///< TORCHELASTIC_USE_AGENT_STORE: the launcher itself listens there, else rank 0 does
  int64_t attempt = 0;           ///< TORCHELASTIC_RESTART_COUNT
  std::string interface{};       ///< GLOO_SOCKET_IFNAME: the network interface that other machines reach; empty: the one towards address
  std::string secret{};  ///< LOCKSTEP_SECRET: known to the ranks and nobody else, for what they tell each
                         ///< other when they meet; empty: none
  int lost_status = 1;   ///< LOCKSTEP_LOST_STATUS: the exit status of a rank that the loss of another one
                         ///< ended; lockstep run has one of its own, to name the right one
};

/// Reads the variables through `variable` (getenv, or a test's table). Nothing where no launcher gave a rank and a number of ranks. Throws
/// invalid_option naming a variable that is missing or has an impossible value.
std::optional<Launch> read_launch(const std::function<const char*(const char* name)>& variable);

}  // namespace lockstep::comm
