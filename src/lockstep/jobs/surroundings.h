// The environment of a submitter, which its job gets too; secrets are in no file.
#pragma once

#include <string>
#include <vector>

#include "lockstep/jobs/job_folder.h"

namespace lockstep::jobs {

struct Surroundings {
  std::vector<std::string> variables{};  ///< "NAME=value"
  std::vector<std::string> secrets{};    ///< names only
};

/// Of this process, without its place among the ranks of a launcher. Secrets are those that `named` lists,
/// all with KEY, SECRET, TOKEN, PASSWORD, PASSWD, PASSPHRASE or CREDENTIAL in their names, and all with PAT
/// or PASS as a word of their names (GITHUB_PAT).
Surroundings surroundings_here(const std::vector<std::string>& named = {});

/// Into the folder of a job that is being made; only its owner can read the file.
void write_variables(const JobPaths& paths, const Surroundings& surroundings);

/// Throws corrupt_data. Empty without the file.
std::vector<std::string> read_variables(const JobPaths& paths);

}  // namespace lockstep::jobs
