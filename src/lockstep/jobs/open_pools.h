// The pools that programs of this user have open. Each has a folder with its record, a lock that its program
// holds while the pool is open, and requests of others. There is no secret in it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/describe.h"
#include "lockstep/jobs/worker_info.h"

namespace lockstep::jobs {

/// POOL/pool.json
struct PoolRecord {
  std::string id{};
  std::string program{};
  std::string profile{};
  std::string kind{};   ///< of its workers: threads, processes
  std::string host{};   ///< the machine of the program
  int64_t process = 0;  ///< of the program
  double opened = 0;    ///< seconds since 1970
  std::vector<WorkerInfo> workers{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("id", self.id, "of the pool");
    field("program", self.program, "that opened it");
    field("profile", self.profile, "where its workers run");
    field("kind", self.kind, "of its workers: threads or processes");
    field("host", self.host, "the machine of the program");
    field("process", self.process, "of the program");
    field("opened", self.opened, "seconds since 1970");
    field("workers", self.workers, "the workers");
  };
};

/// lockstep/pools in the folder of the user's state ($XDG_STATE_HOME, else ~/.local/state). Empty if there is
/// none.
std::filesystem::path pools_folder();

/// Those that are open, the oldest first. It writes nothing.
std::vector<PoolRecord> open_pools(const std::filesystem::path& folder);

/// Asks the program to close its pool, which it does within about a second. Throws not_found.
void ask_to_close_pool(const std::filesystem::path& folder, const std::string& id);

/// The record of an open pool, kept by its program. One thread.
class KeptRecord {
 public:
  /// Makes the folder of the pool, and removes those of programs that were killed. Throws io.
  KeptRecord(const std::filesystem::path& folder, PoolRecord record);
  /// Removes it.
  ~KeptRecord();
  KeptRecord(const KeptRecord&) = delete;
  KeptRecord& operator=(const KeptRecord&) = delete;

  /// Writes it again if they differ from those in it. Throws io.
  void set_workers(std::vector<WorkerInfo> workers);
  bool is_asked_to_close() const;

 private:
  struct Held;
  std::unique_ptr<Held> held_;
};

}  // namespace lockstep::jobs
