#include "lockstep/studio/sweep_tables.h"

#include <algorithm>
#include <chrono>

#include "lockstep/base/error.h"

namespace lockstep::studio {
namespace {

constexpr std::chrono::seconds kMostTableWait{10};  // a healthy reading of a long log takes less

}  // namespace

sweep::Table SweepTables::table_of(const std::string& id, const sweep::SweepPaths& paths) {
  const std::shared_ptr<Reader> reader = reader_of(id, paths);
  const std::unique_lock reading(reader->mutex, kMostTableWait);
  if (!reading)
    throw Error(ErrorCode::timeout, "the folder of the sweep does not answer",
                "another request has waited for it for " + std::to_string(kMostTableWait.count()) + " s");
  sweep::Table table = reader->table.read();
  forget_others(id, table.rows.size());
  return table;
}

std::shared_ptr<SweepTables::Reader> SweepTables::reader_of(const std::string& id,
                                                            const sweep::SweepPaths& paths) {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(known_.begin(), known_.end(), [&](const Known& one) { return one.id == id; });
  if (found != known_.end())
    known_.splice(known_.begin(), known_, found);
  else
    known_.push_front({.id = id, .reader = std::make_shared<Reader>(paths)});
  return known_.front().reader;
}

void SweepTables::forget_others(const std::string& id, size_t row_count) {
  const std::lock_guard lock(mutex_);
  size_t rows = 0;
  for (auto one = known_.begin(); one != known_.end();) {
    if (one->id == id) one->row_count = row_count;
    rows += one->row_count + 1;  // a sweep without trials takes memory too
    one = one == known_.begin() || rows <= most_rows_ ? std::next(one) : known_.erase(one);
  }
}

}  // namespace lockstep::studio
