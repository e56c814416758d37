// Processes for tests: what they do is told by their exit status.
#pragma once

#include <array>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <fstream>
#include <sched.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep::record::test {

inline constexpr int kNotPermitted = 77;
inline constexpr int kThrown = 125;
inline constexpr uid_t kNobody = 65534;  // a user who owns nothing

/// What `work` returns in a process of its own.
inline int in_child(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      ::_exit(work());
    } catch (...) {  // must not go on as a second test program
      ::_exit(kThrown);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/// Moves this process, which has one thread, into new namespaces (CLONE_NEWNS, CLONE_NEWPID). A user who is
/// not root becomes root there, if the system permits it.
inline bool enter_namespaces(int kinds) {
  const uid_t user = ::geteuid();
  const gid_t group = ::getegid();
  if (user == 0) return ::unshare(kinds) == 0;
  if (::unshare(CLONE_NEWUSER | kinds) != 0) return false;
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/gid_map") << "0 " << group << " 1\n";
  std::ofstream("/proc/self/uid_map") << "0 " << user << " 1\n";
  return ::geteuid() == 0;
}

/// A process that has done `begin` and then waits, until it is killed or the object is destroyed.
class WaitingProcess {
 public:
  explicit WaitingProcess(const std::function<void()>& begin) {
    std::array<int, 2> ready{};
    if (::pipe(ready.data()) != 0) std::abort();
    process_ = ::fork();
    if (process_ == 0) {
      begin();
      if (::write(ready[1], "x", 1) != 1) ::_exit(1);
      while (true) ::pause();
    }
    ::close(ready[1]);
    char byte = 0;
    if (::read(ready[0], &byte, 1) != 1) std::abort();
    ::close(ready[0]);
  }
  WaitingProcess(const WaitingProcess&) = delete;
  WaitingProcess& operator=(const WaitingProcess&) = delete;
  ~WaitingProcess() {
    kill();
    reap();
  }
  pid_t id() const { return process_; }
  void kill() { signal(SIGKILL); }
  void signal(int number) {
    if (process_ > 0) ::kill(process_, number);
  }
  void reap() {
    if (process_ > 0) ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }

 private:
  pid_t process_ = 0;
};

}  // namespace lockstep::record::test
