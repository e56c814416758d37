#include "lockstep/launch/stop_signals.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::launch {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void die_of(int signal) {
  std::signal(signal, SIG_DFL);
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  ::raise(signal);
  ::_exit(kSignalStatus + signal);
}

}  // namespace

sigset_t stop_signal_set() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    const bool is_ignored = ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
    if (!is_ignored) ::sigaddset(&signals, signal);
  }
  return signals;
}

void ignore_hangups() { std::signal(SIGHUP, SIG_IGN); }

StopSignals::StopSignals(std::string notice, AtSecond at_second, AtFirst at_first)
    : notice_(std::move(notice)), at_second_(at_second), at_first_(at_first) {
  const sigset_t signals = stop_signal_set();
  signals_ = ::signalfd(-1, &signals, SFD_CLOEXEC);
  finished_ = ::eventfd(0, EFD_CLOEXEC);
  if (signals_ < 0 || finished_ < 0) throw errno_error(errno, "watch", "signals");
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  thread_ = std::thread([this] { wait_for_signals(); });
}

StopSignals::~StopSignals() {
  const uint64_t one = 1;
  while (::write(finished_, &one, sizeof one) < 0 && errno == EINTR) {
  }
  thread_.join();
  ::close(signals_);
  ::close(finished_);
  const sigset_t signals = stop_signal_set();
  ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

void StopSignals::wait_for_signals() {
  Clock::time_point first;
  while (true) {
    std::array<pollfd, 2> waits{pollfd{signals_, POLLIN, 0}, pollfd{finished_, POLLIN, 0}};
    if (::poll(waits.data(), waits.size(), -1) < 0) continue;
    if ((waits[1].revents & POLLIN) != 0) return;
    signalfd_siginfo info{};
    if (::read(signals_, &info, sizeof info) != static_cast<ssize_t>(sizeof info)) continue;
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal_ != 0 && (at_second_ == AtSecond::go_on || signal == SIGHUP || Clock::now() - first < kEcho))
      continue;
    if (signal_ != 0 || at_first_ == AtFirst::die) die_of(signal);
    signal_ = signal;
    ignore_hangups();
    first = Clock::now();
    const std::string text = (::isatty(STDERR_FILENO) == 1 ? "\n" : "") + notice_ + "\n";
    [[maybe_unused]] const ssize_t written =
        notice_.empty() ? 0 : ::write(STDERR_FILENO, text.data(), text.size());
    stop_.request_stop();
  }
}

}  // namespace lockstep::launch
