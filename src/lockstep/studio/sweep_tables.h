// The tables of the sweeps that pages show while they go on.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "lockstep/sweep/table_reader.h"

namespace lockstep::studio {

/// Reads a table again and again, each time only what was added to the files of the sweep. Any thread; a slow
/// folder holds only those who ask for the same sweep.
class SweepTables {
 public:
  /// most_rows: that are remembered, of all sweeps together; one sweep may have more. The sweeps that nobody
  /// has asked for longest are then read from the beginning again.
  explicit SweepTables(size_t most_rows = 200'000) : most_rows_(most_rows) {}

  /// id: of the sweep's folder. Throws as sweep::read_table, and timeout if another caller waits for the
  /// folder for some seconds.
  sweep::Table table_of(const std::string& id, const sweep::SweepPaths& paths);

 private:
  struct Reader {
    explicit Reader(const sweep::SweepPaths& paths) : table(paths) {}
    std::timed_mutex mutex;  // of table, while files are read
    sweep::TableReader table;
  };
  struct Known {
    std::string id;
    std::shared_ptr<Reader> reader;
    size_t row_count = 0;  // at the last reading
  };
  std::shared_ptr<Reader> reader_of(const std::string& id, const sweep::SweepPaths& paths);
  void forget_others(const std::string& id, size_t row_count);

  const size_t most_rows_;
  std::mutex mutex_;        // of the next; for short times
  std::list<Known> known_;  // the one that was asked for last is the first
};

}  // namespace lockstep::studio
