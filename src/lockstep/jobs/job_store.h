// Values and files that a job puts out while it runs, for whoever looks at it.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/jobs/job_folder.h"

namespace lockstep::jobs {

/// The store of one attempt. A later attempt begins with an empty one. Any thread and any process of the job
/// may use it; of two that put the same name, the last one counts.
class JobStore {
 public:
  JobStore(const JobPaths& paths, int64_t attempt) : paths_(paths), attempt_(attempt) {}

  /// Of the job that this process works for, as the variables LOCKSTEP_JOB and LOCKSTEP_JOB_ATTEMPT say;
  /// nothing outside of a job.
  static std::optional<JobStore> of_this_process();

  /// Readers see the old or the new value. Throws invalid_option for a name that is not of letters, digits,
  /// points,
  /// "-" and "_".
  void put_value(const std::string& name, const Json& value) const;
  /// Copies a file; `name` is the one that readers see.
  void put_file(const std::string& name, const std::filesystem::path& file) const;

  /// What cannot be read is left out.
  std::map<std::string, Json> values() const;
  std::optional<Json> value(const std::string& name) const;
  /// Names of files, also of those that the job's patterns named: "out/a.csv".
  std::vector<std::string> files() const;

 private:
  JobPaths paths_;
  int64_t attempt_ = 0;
};

}  // namespace lockstep::jobs
