// Kills what processes have left when their starter was killed. The kernel ends the processes themselves
// (Lifetime::starter), but not what they have started in turn, such as the program of a shell.
#pragma once

#include <vector>

#include <sys/types.h>

#include "lockstep/base/descriptor.h"

namespace lockstep::launch {

/// While it exists, the process groups of these processes are killed when this process dies, however it dies.
/// A process of its own does that. One thread at a time.
class GroupWatch {
 public:
  /// Of processes of start_process. Throws io if no process can be made.
  explicit GroupWatch(std::vector<pid_t> processes);
  ~GroupWatch();
  GroupWatch(const GroupWatch&) = delete;
  GroupWatch& operator=(const GroupWatch&) = delete;

  /// A process has ended, and its id may become that of another.
  void forget(pid_t process);

 private:
  Descriptor line_;  // its end, at the death of this process, is what the watcher waits for
  pid_t watcher_ = -1;
};

}  // namespace lockstep::launch
