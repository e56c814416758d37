// Notices that another process of a group has died, or stands still.
#pragma once

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <sys/types.h>

#include "lockstep/comm/group_memory.h"

namespace lockstep::comm {

/// While it lives, one thread shows that this process runs and watches the other ranks' processes. One that
/// ended without having left (its own PeerWatch's end), or whose thread has been still for four seconds, as
/// when it is stopped by a signal, breaks the group with its rank, process and host.
class PeerWatch {
 public:
  /// processes: of each rank, all on this machine and in this process's view of it. Throws io.
  PeerWatch(GroupMemory& memory, int64_t rank, const std::vector<pid_t>& processes);
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;
  ~PeerWatch();

 private:
  struct Peer {
    int64_t rank;
    pid_t process;
    int descriptor;  // of the process; -1 when it had ended already
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
