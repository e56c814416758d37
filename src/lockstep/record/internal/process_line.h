// What the kernel says of a process in one line.
#pragma once

#include <cstdint>
#include <optional>

namespace lockstep::record {

/// Of /proc/PID/stat (proc(5)).
struct ProcessLine {
  char state = '?';
  int64_t start = 0;            ///< ticks from the machine's start
  int64_t processor_ticks = 0;  ///< of all its threads, in user and kernel mode
  int64_t threads = 0;
  int64_t pages = 0;  ///< in memory
};

/// Nothing if there is no such process, or no /proc.
std::optional<ProcessLine> process_line(int64_t process);

}  // namespace lockstep::record
