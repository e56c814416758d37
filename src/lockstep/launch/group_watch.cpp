#include "lockstep/launch/group_watch.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <sys/socket.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/launch/process.h"

namespace lockstep::launch {
namespace {

// The starter may have threads, so this only makes system calls and does not allocate.
[[noreturn]] void watch(int line, std::vector<pid_t>& processes) {
  ::setsid();  // what kills the starter's group spares the watcher
  ::dup2(line, STDIN_FILENO);
  ::close_range(STDOUT_FILENO, UINT_MAX, 0);
  while (true) {
    pid_t ended = 0;
    const ssize_t got = ::recv(STDIN_FILENO, &ended, sizeof ended, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    std::replace(processes.begin(), processes.end(), ended, pid_t{0});
  }
  for (const pid_t process : processes) {
    if (process > 0) ::kill(-process, SIGKILL);
  }
  ::_exit(0);
}

}  // namespace

GroupWatch::GroupWatch(std::vector<pid_t> processes) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw errno_error(errno, "make", "a socket for a process");
  const Descriptor line(ends[0]);
  line_ = Descriptor(ends[1]);
  watcher_ = ::fork();
  if (watcher_ < 0) throw errno_error(errno, "start", "a process that watches others");
  if (watcher_ == 0) watch(line.get(), processes);
}

GroupWatch::~GroupWatch() {
  ::kill(watcher_, SIGKILL);
  wait_for_end(watcher_);
}

void GroupWatch::forget(pid_t process) {
  // Without a watcher there is nothing to tell.
  [[maybe_unused]] const ssize_t sent = ::send(line_.get(), &process, sizeof process, MSG_NOSIGNAL);
}

}  // namespace lockstep::launch
