// Jobs of tasks behind the login node of a profile: the program `lockstep` of this machine submits and asks
// for them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/jobs/job_list.h"
#include "lockstep/pool/batch_job.h"

namespace lockstep::pool {

/// Removes a folder at its end.
struct FolderRemoval {
  std::filesystem::path folder;
  ~FolderRemoval();
};

/// Submits the command with the files, and returns the job's name here: "far:12". Throws cluster.
std::string submit_there(const std::string& profile, const std::vector<std::string>& command,
                         const std::vector<std::filesystem::path>& files, const BatchOptions& options);

jobs::JobView view_there(const std::string& job);
bool cancel_there(const std::string& job);
std::string diary_there(const std::string& job);
std::optional<Json> value_there(const std::string& job, const std::string& name);

/// The files of a job that has ended well, on this machine while this exists. Throws cancelled, the error
/// that its task has thrown, or cluster.
class FetchedJob {
 public:
  explicit FetchedJob(const std::string& job);
  const std::filesystem::path& folder() const { return removal_.folder; }

 private:
  FolderRemoval removal_;
};

}  // namespace lockstep::pool
