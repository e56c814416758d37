// The machines of a cluster, as its scheduler lists them.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/cluster/profile.h"

namespace lockstep::cluster {

struct Node {
  std::string host;
  std::string state{};  ///< the scheduler's word: "idle"
  int64_t cores = 0;
  int64_t memory_mb = 0;
  std::string gpus{};    ///< "gpu:2", as the scheduler writes it; empty: none
  std::string reason{};  ///< why it is not up, in the words of who took it out; empty: nobody did
};

struct Partition {
  std::string name;
  bool is_default = false;
  int64_t nodes = 0;
  int64_t cores = 0;   ///< of the smallest node
  int64_t gpus = 0;    ///< of a node; 0 if the nodes differ in having any
  std::string time{};  ///< limit, the scheduler's word
};

/// The machines of the profile's partition, asked for on its login node if it has one; of `local` this one.
/// Throws cluster, and cancelled at a stop.
std::vector<Node> nodes_of(const Profile& profile, const std::stop_token& stop = {});

/// Those of the Slurm that this machine's commands reach. Throws cluster.
std::vector<Partition> slurm_partitions();

/// Lines "PARTITION|NODES|CORES|GRES|LIMIT" of sinfo, one for each kind of node.
std::vector<Partition> read_partitions(std::string_view text);

/// "gpu:2", "gpu:a100:4(S:0-1)", "(null)": the number of GPUs.
int64_t gpus_in_gres(std::string_view gres);

}  // namespace lockstep::cluster
