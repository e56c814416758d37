#include "lockstep/launch/process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "lockstep/base/error.h"

namespace lockstep::launch {
namespace {

constexpr int kCannotStart = 127;  // as a shell reports it
constexpr std::chrono::steady_clock::duration kFirstWait = std::chrono::milliseconds(1),
                                              kLongestWait = std::chrono::milliseconds(20);
constexpr mode_t kFileMode = 0666;  // less the user's mask

// getenv finds the first of two variables with one name, but a program may read both.
std::vector<std::string> environment_with(const std::vector<std::string>& variables) {
  std::vector<std::string> all = variables;
  for (char* const* entry = environ; *entry != nullptr; ++entry) {
    const std::string_view own = *entry;
    const std::string_view name = own.substr(0, own.find('=') + 1);
    const bool replaced = std::any_of(variables.begin(), variables.end(), [&](const std::string& variable) {
      return variable.starts_with(name);
    });
    if (!replaced) all.emplace_back(own);
  }
  return all;
}

// In the form that execve needs.
std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// The starter may have threads, so its child may only make system calls and must not allocate.
struct Prepared {
  const Start& start;
  char* const* words;
  char* const* environment;
  pid_t starter;
};

void place(int descriptor, int target) {
  if (descriptor == kInherited) return;
  if (descriptor == kNull) descriptor = ::open("/dev/null", target == STDIN_FILENO ? O_RDONLY : O_WRONLY);
  if (descriptor == target) {
    ::fcntl(descriptor, F_SETFD, 0);
  } else {
    ::dup2(descriptor, target);
  }
}

[[noreturn]] void cannot_execute(const char* name, int reason) {
  const char* why = ::strerrordesc_np(reason);
  std::array<iovec, 5> pieces{};
  size_t count = 0;
  for (const char* text : {"cannot start \"", name, "\": ", why == nullptr ? "unknown error" : why, "\n"})
    pieces[count++] = {const_cast<char*>(text), std::strlen(text)};
  [[maybe_unused]] const ssize_t written = ::writev(STDERR_FILENO, pieces.data(), static_cast<int>(count));
  ::_exit(kCannotStart);
}

[[noreturn]] void become(const Prepared& prepared) {
  const Start& start = prepared.start;
  const bool is_detached = start.lifetime == Lifetime::detached;
  if (!is_detached || start.gate >= 0) {
    // First of all, so that a starter that dies now leaves no process. posix_spawn cannot do this.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != prepared.starter) ::_exit(1);
  }
  if (is_detached) {
    ::setsid();
  } else {
    ::setpgid(0, 0);  // the terminal's Ctrl-C is for the starter
  }
  if (start.gate >= 0) {
    eventfd_t passed = 0;
    while (::eventfd_read(start.gate, &passed) != 0 && errno == EINTR) {
    }
    if (is_detached) ::prctl(PR_SET_PDEATHSIG, 0);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGPIPE, SIGCHLD}) std::signal(signal, SIG_DFL);
  place(start.input, STDIN_FILENO);
  place(start.output, STDOUT_FILENO);
  place(start.errors, STDERR_FILENO);
  place(start.passed, kPassedDescriptor);
  // A descriptor that stays open may be a pipe whose reader waits for its end.
  if (is_detached) ::close_range(kPassedDescriptor + (start.passed < 0 ? 0 : 1), UINT_MAX, 0);
  ::execvpe(start.program.c_str(), prepared.words, prepared.environment);
  cannot_execute(prepared.words[0], errno);
}

}  // namespace

Gate::Gate() : descriptor_(::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC)) {
  if (!descriptor_) throw errno_error(errno, "make", "a gate for processes");
}

void Gate::open(size_t processes) const { ::eventfd_write(descriptor_.get(), processes); }

pid_t start_process(const Start& start) {
  std::vector<std::string> words = start.words, variables = environment_with(start.environment);
  const std::vector<char*> arguments = pointers_to(words), environment = pointers_to(variables);
  const Prepared prepared{start, arguments.data(), environment.data(), ::getpid()};
  const pid_t process = ::fork();
  if (process < 0) throw errno_error(errno, "start", start.words.front());
  if (process == 0) become(prepared);
  // Here too, so that the group exists when this returns.
  if (start.lifetime == Lifetime::starter) ::setpgid(process, process);
  return process;
}

pid_t start_detached(Start start, const std::filesystem::path& output) {
  const Descriptor file(::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kFileMode));
  if (!file) throw errno_error(errno, "write", output.string());
  start.input = kNull;
  start.output = start.errors = file.get();
  start.lifetime = Lifetime::detached;
  return start_process(start);
}

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw errno_error(errno, "make", "a pipe for a process");
  Pipe pipe{Descriptor(ends[0]), Descriptor(ends[1])};
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return pipe;
}

bool read_available(int descriptor, const std::function<void(std::string_view)>& take) {
  std::array<char, 65536> piece;
  while (true) {
    const ssize_t got = ::read(descriptor, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 && errno == EAGAIN;
    take({piece.data(), static_cast<size_t>(got)});
  }
}

std::optional<End> try_wait_for_end(pid_t process) {
  int status = 0;
  const pid_t ended = ::waitpid(process, &status, WNOHANG);
  if (ended == 0) return std::nullopt;
  return ended == process ? End{status} : End{};
}

End wait_for_end(pid_t process) {
  int status = 0;
  pid_t ended = 0;
  do {
    ended = ::waitpid(process, &status, 0);
  } while (ended < 0 && errno == EINTR);
  return ended == process ? End{status} : End{};
}

std::optional<End> wait_for_end(pid_t process, const std::stop_token& stop,
                                std::chrono::steady_clock::time_point until) {
  // Short at first, because a process whose pipes are closed ends within a moment.
  for (std::chrono::steady_clock::duration pause = kFirstWait;; pause = std::min(2 * pause, kLongestWait)) {
    if (const auto end = try_wait_for_end(process)) return end;
    const auto left = until - std::chrono::steady_clock::now();
    if (stop.stop_requested() || left.count() <= 0) return std::nullopt;
    std::this_thread::sleep_for(std::min(pause, left));
  }
}

bool signal_group(pid_t process, int signal) { return ::kill(-process, signal) == 0; }

void kill_group(pid_t process) {
  ::kill(process, SIGKILL);  // a detached one may not have made its group yet
  signal_group(process, SIGKILL);
  wait_for_end(process);
}

int exit_status(int status) {
  return WIFSIGNALED(status) ? kSignalStatus + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string text_of_status(int status) {
  if (WIFSIGNALED(status))
    return "was killed by signal " + std::to_string(WTERMSIG(status)) + " (" + ::strsignal(WTERMSIG(status)) +
           ")";
  return "ended with status " + std::to_string(WEXITSTATUS(status));
}

}  // namespace lockstep::launch
