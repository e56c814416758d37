// The runs that a job trains: one, or those of a cross-validation.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "lockstep/jobs/job_spec.h"
#include "lockstep/record/state.h"

namespace lockstep::jobs {

/// Whether training has begun in the folder, and can be resumed.
bool has_begun(const std::filesystem::path& run_folder);

/// Number of folds of a cross-validation in the folder; 0: it is one run.
int64_t folds_in(const std::filesystem::path& run_folder);

/// Folders of the runs that have begun, in order: the folder itself, or its folds. Empty if none has.
std::vector<std::filesystem::path> runs_in(const std::filesystem::path& run_folder);

/// Whether its run, or each fold, has ended well.
bool have_runs_ended(const JobSpec& spec);

/// Of the newest run of a job, with the steps of all; nothing if none has begun, and for another program.
std::optional<record::StateOfRun> state_of_runs(const JobSpec& spec);

}  // namespace lockstep::jobs
