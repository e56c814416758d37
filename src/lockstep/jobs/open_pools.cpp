#include "lockstep/jobs/open_pools.h"

#include <algorithm>
#include <fcntl.h>
#include <optional>
#include <system_error>
#include <utility>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/host.h"
#include "lockstep/base/random_hex.h"
#include "lockstep/base/text.h"
#include "lockstep/base/user_folders.h"
#include "lockstep/jobs/job_folder.h"
#include "lockstep/jobs/job_lock.h"

namespace lockstep::jobs {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostPoolRecord = int64_t{16} << 20;  // 4096 workers, and room for long names
constexpr size_t kPoolIdBytes = 4;

struct PoolPaths {
  fs::path folder;
  fs::path record() const { return folder / "pool.json"; }
  fs::path lock() const { return folder / "lock"; }
  fs::path close() const { return folder / "close"; }
};

// Nothing for a pool that is not open, or that is being made or removed.
std::optional<PoolRecord> read_pool(const PoolPaths& paths) {
  try {
    if (!is_held(paths.lock())) return std::nullopt;
    PoolRecord record;
    read_json(parse_json(read_file(paths.record(), kMostPoolRecord)), record, "the record of a pool");
    record.id = paths.folder.filename().string();
    return record;
  } catch (const Error&) {
    return std::nullopt;
  } catch (const JsonError&) {
    return std::nullopt;
  }
}

std::string text_of(const PoolRecord& record) {
  return to_json(record).dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code code;
  for (auto it = fs::directory_iterator(folder, code); !code && it != fs::directory_iterator();
       it.increment(code)) {
    if (it->path().filename().string().front() != '.') found.push_back(it->path());
  }
  return found;
}

// Of this machine alone: a lock of another one may not be seen here.
void remove_lost(const fs::path& folder) {
  for (const fs::path& one : folders_in(folder)) {
    const PoolPaths paths{one};
    try {
      const Json json = parse_json(read_file(paths.record(), kMostPoolRecord));
      if (json.value("host", "") != host_name() || is_held(paths.lock())) continue;
    } catch (const std::exception&) {  // not a whole record: it is being made, or somebody else's
      continue;
    }
    std::error_code none;
    fs::remove_all(one, none);
  }
}

}  // namespace

struct KeptRecord::Held {
  fs::path folder;
  PoolRecord record;
  FileLock lock;
};

fs::path pools_folder() {
  const fs::path state = user_state_folder();
  return state.empty() ? state : state / "lockstep" / "pools";
}

std::vector<PoolRecord> open_pools(const fs::path& folder) {
  std::vector<PoolRecord> pools;
  for (const fs::path& one : folders_in(folder)) {
    if (auto record = read_pool({one})) pools.push_back(std::move(*record));
  }
  std::sort(pools.begin(), pools.end(), [](const PoolRecord& one, const PoolRecord& other) {
    return std::pair(one.opened, one.id) < std::pair(other.opened, other.id);
  });
  return pools;
}

void ask_to_close_pool(const fs::path& folder, const std::string& id) {
  for (const PoolRecord& pool : open_pools(folder)) {
    if (pool.id != id) continue;
    const fs::path file = PoolPaths{folder / id}.close();
    if (!Descriptor(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)))
      throw errno_error(errno, "write", file.string());
    return;
  }
  throw Error(ErrorCode::not_found, "there is no open pool " + quote(id), "lockstep pools lists them");
}

KeptRecord::KeptRecord(const fs::path& folder, PoolRecord record) {
  make_folders(folder);
  remove_lost(folder);
  record.id = random_hex(kPoolIdBytes);
  // It appears as a whole, with its lock held.
  const PoolPaths paths{folder / record.id};
  const PoolPaths made{folder / ("." + record.id)};
  try {
    make_folders(made.folder);
    FileLock lock = FileLock::take(made.lock());
    write_file_quick(made.record(), text_of(record));
    rename_path(made.folder, paths.folder);
    held_ = std::make_unique<Held>(Held{paths.folder, std::move(record), std::move(lock)});
  } catch (...) {
    std::error_code none;
    fs::remove_all(made.folder, none);
    throw;
  }
}

KeptRecord::~KeptRecord() {
  std::error_code none;
  fs::remove_all(held_->folder, none);
}

void KeptRecord::set_workers(std::vector<WorkerInfo> workers) {
  if (workers == held_->record.workers) return;
  held_->record.workers = std::move(workers);
  write_file_quick(PoolPaths{held_->folder}.record(), text_of(held_->record));
}

bool KeptRecord::is_asked_to_close() const {
  std::error_code none;
  return fs::exists(PoolPaths{held_->folder}.close(), none);
}

}  // namespace lockstep::jobs
