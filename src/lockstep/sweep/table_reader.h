// The table of a sweep for programs that show it while it goes on.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "lockstep/sweep/sweep_log.h"

namespace lockstep::sweep {

/// Reads the table again and again, each time only the lines that were added to the sweep's log and notes.
/// One thread.
class TableReader {
 public:
  explicit TableReader(const SweepPaths& paths);
  /// As read_table.
  Table read();

 private:
  SweepPaths paths_;
  LogReader log_;
  LineReader<Note> notes_;
  std::map<int64_t, Row> rows_;  // as the log has them
  std::map<int64_t, std::string> note_of_;
};

}  // namespace lockstep::sweep
