#include "lockstep/studio/sweep_tables.h"

#include <algorithm>
#include <chrono>

#include "lockstep/base/error.h"

namespace lockstep::studio {
namespace {

constexpr std::chrono::seconds kMostTableWait{10};  // a healthy reading of a long log takes less

}  // namespace

sweep::Table SweepTables::table_of(const std::string& id, const sweep::SweepPaths& paths) {
  return read(id, *reader_of(id, paths));
}

sweep::Table SweepTables::listed_table_of(const std::string& id, const sweep::SweepPaths& paths) {
  const std::shared_ptr<Reader> reader = listed_reader_of(id, paths);
  return reader ? read(id, *reader) : sweep::read_table(paths);
}

sweep::Table SweepTables::read(const std::string& id, Reader& reader) {
  const std::unique_lock reading(reader.mutex, kMostTableWait);
  if (!reading)
    throw Error(ErrorCode::timeout, "the folder of the sweep does not answer",
                "another request has waited for it for " + std::to_string(kMostTableWait.count()) + " s");
  sweep::Table table = reader.table.read();
  forget_some(id, table);
  return table;
}

std::shared_ptr<SweepTables::Reader> SweepTables::reader_of(const std::string& id,
                                                            const sweep::SweepPaths& paths) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(known_, id, &Known::id);
  if (found != known_.end())
    known_.splice(known_.begin(), known_, found);
  else
    known_.push_front({.id = id, .reader = std::make_shared<Reader>(paths)});
  return known_.front().reader;
}

// None for a sweep on which nobody works and that no page shows.
std::shared_ptr<SweepTables::Reader> SweepTables::listed_reader_of(const std::string& id,
                                                                   const sweep::SweepPaths& paths) {
  const bool is_worked_on = sweep::is_worked_on(paths);  // before the lock: a folder may be slow
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(known_, id, &Known::id);
  if (found != known_.end()) return found->reader;
  if (!is_worked_on) return nullptr;
  return known_.emplace_back(Known{.id = id, .reader = std::make_shared<Reader>(paths)}).reader;
}

void SweepTables::forget_some(const std::string& id, const sweep::Table& table) {
  const std::lock_guard lock(mutex_);
  size_t rows = 0;
  for (auto one = known_.begin(); one != known_.end();) {
    if (one->id == id) {
      one->row_count = table.rows.size();
      one->is_going_on = table.is_going_on;
    }
    const size_t with_it = rows + one->row_count + 1;  // a sweep without trials takes memory too
    if (one == known_.begin() || (one->is_going_on && with_it <= most_rows_)) {
      rows = with_it;
      ++one;
    } else {
      one = known_.erase(one);
    }
  }
}

}  // namespace lockstep::studio
