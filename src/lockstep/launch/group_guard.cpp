#include "lockstep/launch/group_guard.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockstep/base/error.h"

namespace lockstep::launch {
namespace {

// The child may only make system calls and must not allocate.
struct Groups {
  std::array<pid_t, 8192> ids;
  size_t count = 0;

  // A group to add, or the negative of one to remove.
  void take(pid_t word) {
    if (word > 0 && count < ids.size()) {
      ids[count++] = word;
      return;
    }
    const auto end = ids.begin() + static_cast<std::ptrdiff_t>(count);
    const auto found = std::find(ids.begin(), end, -word);
    if (found != end) *found = ids[--count];
  }
};

[[noreturn]] void guard(int socket) {
  ::setsid();  // what is sent to the group of the starter is not for this process
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);
  ::prctl(PR_SET_NAME, "group guard");
  ::dup2(socket, STDIN_FILENO);
  ::close_range(STDIN_FILENO + 1, UINT_MAX, 0);
  Groups groups;
  while (true) {
    pid_t word = 0;
    const ssize_t got = ::recv(STDIN_FILENO, &word, sizeof word, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got != static_cast<ssize_t>(sizeof word)) break;
    groups.take(word);
  }
  for (size_t i = 0; i < groups.count; ++i) ::kill(-groups.ids[i], SIGKILL);
  ::_exit(0);
}

}  // namespace

GroupGuard::GroupGuard() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw errno_error(errno, "make", "a socket for a process");
  socket_ = Descriptor(ends[0]);
  const Descriptor other(ends[1]);
  process_ = ::fork();
  if (process_ < 0) throw errno_error(errno, "start", "the process that ends the ranks of a killed launcher");
  if (process_ == 0) guard(other.get());
}

GroupGuard::~GroupGuard() {
  socket_ = {};
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void GroupGuard::send(pid_t word) {
  [[maybe_unused]] const ssize_t sent = ::send(socket_.get(), &word, sizeof word, MSG_NOSIGNAL);
}

}  // namespace lockstep::launch
