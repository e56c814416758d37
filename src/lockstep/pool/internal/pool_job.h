// A job of a scheduler whose processes are members of a pool.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/cluster/scheduler.h"
#include "lockstep/pool/internal/pool_place.h"

namespace lockstep::pool {

/// What is known of it at a moment.
struct PoolJobNews {
  std::string id{};  ///< empty: the scheduler has not taken it yet
  cluster::Standing standing{};
  std::optional<Error> refused{};  ///< the scheduler does not take it
};

/// Submits it and asks after it on a thread of its own. Ends it at its own end. One thread may call it.
class PoolJob {
 public:
  /// folder: of the job alone; it need not be there. The processes begin at worker place.first.
  PoolJob(const cluster::Profile& profile, const std::string& program, std::filesystem::path folder,
          PoolPlace place);
  ~PoolJob();
  PoolJob(const PoolJob&) = delete;
  PoolJob& operator=(const PoolJob&) = delete;

  int64_t first() const;
  int64_t size() const;
  bool has(int64_t worker) const { return worker >= first() && worker < first() + size(); }
  /// What has changed since the last call; nothing if nothing has.
  std::optional<PoolJobNews> news();
  /// Its processes are here, and need neither the secret nor the scheduler any more.
  void is_here();
  /// The last lines of what its processes wrote, in one line.
  std::string last_words() const;

 private:
  class Watch;
  std::unique_ptr<Watch> watch_;
};

}  // namespace lockstep::pool
