// Shows the progress of a command that prints nothing else until its end.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "lockstep/cli/status_line.h"

namespace lockstep::cli {

/// A StatusLine of counted things: "512 of 1,607 images, 12 s left". Any thread may call it.
class ProgressLine {
 public:
  /// noun: what is counted, "images"
  ProgressLine(Console& console, std::string noun, int64_t all);

  void add(int64_t count);

 private:
  const std::string noun_;
  const int64_t all_;
  std::mutex mutex_;
  int64_t done_ = 0;
  StatusLine line_;
};

}  // namespace lockstep::cli
