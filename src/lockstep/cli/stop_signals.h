// Ctrl-C and SIGTERM as a stop token.
#pragma once

#include <atomic>
#include <stop_token>
#include <string>
#include <thread>

namespace lockstep::cli {

/// What a second signal does. Under a launcher, which passes on what the terminal sent too, it is to be ignored.
enum class AtSecond { die, go_on };

/// While it lives, the first SIGINT or SIGTERM prints `notice` on standard error and requests a stop; a second one kills the process,
/// unless it comes within a twentieth of a second: then it counts as the same.
/// A thread waits for the signals, so nothing runs inside a signal handler. Make it before other threads: they inherit its signal mask.
class StopSignals {
 public:
  explicit StopSignals(std::string notice, AtSecond at_second = AtSecond::die);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  std::stop_token token() const { return stop_.get_token(); }
  /// The signal that requested the stop, or 0.
  int signal() const { return signal_; }

 private:
  void wait_for_signals();

  std::string notice_;  ///< empty: none
  AtSecond at_second_;
  std::stop_source stop_;
  std::atomic<int> signal_ = 0;
  int signals_ = -1;   ///< signalfd
  int finished_ = -1;  ///< eventfd that ends the thread
  std::thread thread_;
};

}  // namespace lockstep::cli
