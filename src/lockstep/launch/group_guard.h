// A process that kills process groups when the one that started them has been killed.
#pragma once

#include <sys/types.h>

#include "lockstep/base/descriptor.h"

namespace lockstep::launch {

/// The kernel kills the processes of start_process with their starter, but not what they have started. While
/// this object exists, a process in a session of its own waits for the end of this process, in whatever way,
/// and then kills the groups that were added. It inherits no descriptor. If somebody kills it, nothing else
/// happens.
class GroupGuard {
 public:
  /// Throws io.
  GroupGuard();
  /// The groups that were not removed are killed.
  ~GroupGuard();
  GroupGuard(const GroupGuard&) = delete;
  GroupGuard& operator=(const GroupGuard&) = delete;

  /// The group of a process of start_process.
  void add(pid_t group) { send(group); }
  /// Its id may now be that of another group.
  void remove(pid_t group) { send(-group); }

 private:
  void send(pid_t word);

  Descriptor socket_;
  pid_t process_ = -1;
};

}  // namespace lockstep::launch
