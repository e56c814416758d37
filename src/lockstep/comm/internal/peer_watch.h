// Notices that another process of a group has died or is stopped.
#pragma once

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <sys/types.h>

#include "lockstep/comm/group_memory.h"

namespace lockstep::comm {

/// While it lives, one thread shows that this process runs, and watches the other ranks' processes. A process
/// that ended without leaving the group (the end of its own PeerWatch), or whose thread has not run for four
/// seconds, for example because a signal stopped it, breaks the group. The reason names its rank, process and
/// host.
class PeerWatch {
 public:
  /// processes: of each rank, all on this machine and visible to this process. Throws io.
  PeerWatch(GroupMemory& memory, int64_t rank, const std::vector<pid_t>& processes);
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;
  ~PeerWatch();

 private:
  struct Peer {
    int64_t rank;
    pid_t process;
    int descriptor;  // of the process; -1 if it had already ended
    uint32_t seen_beats = 0;
    int silent_beats = 0;
  };
  void run();
  bool wait(int milliseconds);
  void beat();
  void lost(const Peer& peer, const char* how);

  GroupMemory& memory_;
  int64_t rank_;
  std::vector<Peer> peers_;
  int finished_ = -1;
  std::thread thread_;
};

}  // namespace lockstep::comm
