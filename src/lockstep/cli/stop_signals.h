// Ctrl-C, SIGTERM and the end of the terminal as a stop token.
#pragma once

#include <atomic>
#include <csignal>
#include <stop_token>
#include <string>
#include <thread>

namespace lockstep::cli {

/// Added to the signal, the exit status of a program that it ended, as a shell reports it.
inline constexpr int kSignalStatus = 128;

/// What a second signal does. Under a launcher, which passes on what the terminal sent too, it is to be
/// ignored.
enum class AtSecond { die, go_on };

/// What the first one does: as long as nothing could be saved, it may kill at once.
enum class AtFirst { stop, die };

/// SIGINT, SIGTERM and SIGHUP, without those that whoever started us had ignored: a shell does with Ctrl-C
/// for what it runs in the background, nohup with SIGHUP.
sigset_t stop_signal_set();

/// From now on a SIGHUP that is not blocked does nothing, to the end of the process: a terminal that closes
/// says so several times, the shell first and then the kernel, and the last one may come when the stop that
/// the first one asked for is done. Who reads signals gets them still: what is blocked is not ignored.
void ignore_hangups();

/// While it lives, the first SIGINT, SIGTERM or SIGHUP that is not ignored prints `notice` on standard error
/// and requests a stop; a second one kills the process, unless it comes within a twentieth of a second, or is
/// a SIGHUP: then it counts as the same, also when this is gone. A thread waits for the signals, so nothing
/// runs inside a signal handler. Make it before other threads: they inherit its signal mask.
class StopSignals {
 public:
  explicit StopSignals(std::string notice, AtSecond at_second = AtSecond::die,
                       AtFirst at_first = AtFirst::stop);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// From now on the first one stops.
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

}  // namespace lockstep::cli
