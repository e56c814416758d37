// The tables of the sweeps that go on, and of the one that a page shows.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "lockstep/sweep/table_reader.h"

namespace lockstep::studio {

/// Reads a table again and again, each time only what was added to the files of the sweep. Remembers sweeps
/// on which programs work, and the one that a page has shown last. Any thread; a slow folder holds only those
/// who ask for the same sweep.
class SweepTables {
 public:
  /// most_rows: that are remembered, of all sweeps together; the first one may have more. The sweeps that no
  /// page has shown for longest are then read from the beginning again.
  explicit SweepTables(size_t most_rows = 200'000) : most_rows_(most_rows) {}

  /// Of the sweep that a page shows. id: of the sweep's folder. Throws as sweep::read_table, and timeout if
  /// another caller waits for the folder for some seconds.
  sweep::Table table_of(const std::string& id, const sweep::SweepPaths& paths);
  /// Of a sweep in a list. Throws as table_of().
  sweep::Table listed_table_of(const std::string& id, const sweep::SweepPaths& paths);

 private:
  struct Reader {
    explicit Reader(const sweep::SweepPaths& paths) : table(paths) {}
    std::timed_mutex mutex;  // of table, while files are read
    sweep::TableReader table;
  };
  struct Known {
    std::string id;
    std::shared_ptr<Reader> reader;
    size_t row_count = 0;  // at the last reading, as the next
    bool is_going_on = false;
  };
  sweep::Table read(const std::string& id, Reader& reader);
  std::shared_ptr<Reader> reader_of(const std::string& id, const sweep::SweepPaths& paths);
  std::shared_ptr<Reader> listed_reader_of(const std::string& id, const sweep::SweepPaths& paths);
  void forget_some(const std::string& id, const sweep::Table& table);

  const size_t most_rows_;
  std::mutex mutex_;        // of the next; for short times
  std::list<Known> known_;  // the one that a page showed last is the first
};

}  // namespace lockstep::studio
