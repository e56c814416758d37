#include "lockstep/pool/internal/process.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <string_view>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "lockstep/base/child_process.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::pool {
namespace {

constexpr size_t kTailBytes = 4096;
constexpr size_t kMostLastLines = 5;
constexpr std::chrono::milliseconds kEndingTime{300};

[[noreturn]] void cannot_start(int reason) { throw errno_error(reason, "start", "a worker process"); }

std::string program_path() {
  std::array<char, 4096> path{};
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  return size > 0 ? std::string(path.data(), static_cast<size_t>(size)) : "lockstep-worker";
}

// Made before the fork.
struct Start {
  char* const* arguments;
  char* const* environment;
};

// In the child of a program with threads only system calls may be made, and nothing allocated.
[[noreturn]] void become_worker(pid_t client, int socket, int errors, const Start& start) {
  // Before anything else, so that a client that dies while its workers start leaves none. (posix_spawn cannot
  // do this.)
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != client) ::_exit(1);
  ::setpgid(0, 0);  // Ctrl-C is the client's to answer, and workers end with it
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(errors, STDERR_FILENO);
  if (socket == kWorkerSocket) ::fcntl(socket, F_SETFD, 0);
  if (socket != kWorkerSocket) ::dup2(socket, kWorkerSocket);
  // Not by its path: a program that was built anew meanwhile would be another one.
  ::execve("/proc/self/exe", start.arguments, start.environment);
  constexpr std::string_view kWords = "this program cannot be started again\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kWords.data(), kWords.size());
  ::_exit(127);
}

pid_t fork_worker(int socket, int errors, const std::vector<std::string>& changes) {
  std::string name = program_path();
  std::string argument = kWorkerArgument;
  const pid_t own = ::getpid();
  std::string client = std::to_string(own);
  const std::array<char*, 4> arguments{name.data(), argument.data(), client.data(), nullptr};
  std::vector<std::string> entries = environment_with(changes);
  const std::vector<char*> environment = pointers_to(entries);
  const Start start{.arguments = arguments.data(), .environment = environment.data()};
  const pid_t process = ::fork();
  if (process < 0) cannot_start(errno);
  if (process == 0) become_worker(own, socket, errors, start);
  return process;
}

}  // namespace

StartedProcess start_worker_process(const std::vector<std::string>& environment) {
  std::array<int, 2> sockets{};
  std::array<int, 2> errors{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0) cannot_start(errno);
  Descriptor own_socket(sockets[0]);
  const Descriptor its_socket(sockets[1]);
  if (::pipe2(errors.data(), O_CLOEXEC) != 0) cannot_start(errno);
  Descriptor own_errors(errors[0]);
  const Descriptor its_errors(errors[1]);
  ::fcntl(own_errors.get(), F_SETFL, O_NONBLOCK);
  const pid_t process = fork_worker(its_socket.get(), its_errors.get(), environment);
  return {.id = process,
          .name = "worker process " + std::to_string(process),
          .socket = std::move(own_socket),
          .errors = std::move(own_errors)};
}

std::string end_of(pid_t process) {
  int status = 0;
  const auto until = std::chrono::steady_clock::now() + kEndingTime;
  bool killed = false;
  while (true) {
    const pid_t got = ::waitpid(process, &status, WNOHANG);
    if (got == process) return killed ? "closed its connection and was ended" : text_of_status(status);
    if (got < 0 && errno != EINTR) return "ended";
    if (!killed && std::chrono::steady_clock::now() >= until) {
      ::kill(process, SIGKILL);
      killed = true;
    } else if (std::chrono::steady_clock::now() >= until + kEndingTime) {
      return "does not end";  // in a system call that nothing interrupts; its death signal waits for it
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool LastWords::read(int descriptor) {
  std::array<char, 4096> piece;
  while (true) {
    const ssize_t got = ::read(descriptor, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 && errno == EAGAIN;
    [[maybe_unused]] const ssize_t passed = ::write(STDERR_FILENO, piece.data(), static_cast<size_t>(got));
    tail_.append(piece.data(), static_cast<size_t>(got));
    if (tail_.size() > kTailBytes) tail_.erase(0, tail_.size() - kTailBytes);
  }
}

std::string LastWords::text() const {
  std::vector<std::string> lines;
  for (const std::string& line : split(tail_, '\n')) {
    if (!line.empty()) lines.push_back(line);
  }
  const size_t first = lines.size() > kMostLastLines ? lines.size() - kMostLastLines : 0;
  return join({lines.begin() + static_cast<std::ptrdiff_t>(first), lines.end()}, " | ");
}

}  // namespace lockstep::pool
