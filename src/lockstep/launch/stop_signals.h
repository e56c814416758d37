// Turns Ctrl-C, SIGTERM and the closing of the terminal into a stop token.
#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <stop_token>
#include <string>
#include <thread>

#include "lockstep/launch/process.h"  // kSignalStatus, what the signal becomes

namespace lockstep::launch {

/// A signal that comes so soon after the first is the same request: timeout(1) and some launchers send one
/// twice, to the process and to its group.
inline constexpr std::chrono::milliseconds kEcho{50};

/// What a second signal does. Under a launcher it must be ignored, because the launcher also forwards what
/// the terminal sent.
enum class AtSecond { die, go_on };

/// What the first signal does: while there is nothing to save, it may kill at once.
enum class AtFirst { stop, die };

/// SIGINT, SIGTERM and SIGHUP, without those that were ignored when this program started: a shell ignores
/// Ctrl-C for background commands, and nohup ignores SIGHUP.
sigset_t stop_signal_set();

/// From now on until the process ends, a SIGHUP that is not blocked does nothing. A closing terminal sends
/// several, first from the shell and then from the kernel, and the last one may arrive after the stop that
/// the first one requested. Threads that read signals still receive them: a blocked signal is not ignored.
void ignore_hangups();

/// While it exists, the first SIGINT, SIGTERM or SIGHUP that is not ignored prints `notice` on standard error
/// and requests a stop. A second one kills the process, unless it is a SIGHUP or comes within kEcho: it then
/// counts as the first one, even after this object is destroyed. A thread waits for the
/// signals, so no code runs inside a signal handler. Make it before other threads: they inherit its signal
/// mask.
class StopSignals {
 public:
  explicit StopSignals(std::string notice, AtSecond at_second = AtSecond::die,
                       AtFirst at_first = AtFirst::stop);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// From now on the first signal requests a stop.
  void stop_at_first() { at_first_ = AtFirst::stop; }
  std::stop_token token() const { return stop_.get_token(); }
  /// The signal that requested the stop, or 0.
  int signal() const { return signal_; }

 private:
  void wait_for_signals();

  std::string notice_;  ///< empty: none
  AtSecond at_second_;
  std::atomic<AtFirst> at_first_;
  std::stop_source stop_;
  std::atomic<int> signal_ = 0;
  int signals_ = -1;   ///< signalfd
  int finished_ = -1;  ///< eventfd that ends the thread
  std::thread thread_;
};

}  // namespace lockstep::launch
