// One line that says how far a command is.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "lockstep/cli/console.h"

namespace lockstep::cli {

/// The last line on standard error while a command works. On a terminal it is overwritten, and erased at the
/// end; elsewhere it is a line every ten seconds. Nothing is shown for work that takes less than a second.
/// For one thread at a time.
class StatusLine {
 public:
  explicit StatusLine(Console& console);
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /// Shows what `text` returns, unless the line is too new to be replaced. Call it as often as you like.
  void show(const std::function<std::string()>& text);
  /// ", 12 s left", if the `left` parts take as long each as the `done` ones since this line was made; empty
  /// if none is done or left.
  std::string time_left(int64_t done, int64_t left) const;
  void erase();

 private:
  using Clock = std::chrono::steady_clock;

  Console& console_;
  const bool redraws_;
  bool shown_ = false;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
};

}  // namespace lockstep::cli
