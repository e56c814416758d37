// Shows the progress of a command that prints nothing else until its end.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

#include "lockstep/cli/console.h"

namespace lockstep::cli {

/// Writes "512 of 1,607 images, 12 s left" to standard error. On a terminal this is one line, overwritten and
/// erased at the end; elsewhere it is a line every ten seconds. Nothing is shown for work that takes less
/// than a second. Any thread may call it.
class ProgressLine {
 public:
  /// noun: what is counted, "images"
  ProgressLine(Console& console, std::string noun, int64_t all);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void add(int64_t count);

 private:
  void take_away();

  using Clock = std::chrono::steady_clock;

  Console& console_;
  const std::string noun_;
  const int64_t all_;
  const bool redraws_;
  const Clock::time_point start_ = Clock::now();
  std::mutex mutex_;
  int64_t done_ = 0;
  bool shown_ = false;
  Clock::time_point last_ = start_;
};

}  // namespace lockstep::cli
