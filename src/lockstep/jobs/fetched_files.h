// Files of a job's attempts: those that match its patterns, and the end of its diary.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "lockstep/jobs/job_folder.h"

namespace lockstep::jobs {

/// Copies the files below the working folder that match the job's patterns and were written since `started`
/// (seconds since 1970) into the attempt's folder `files`, under their names. What cannot be copied is said
/// in the diary. Patterns are those of glob(3), without "..".
void fetch_files(const JobPaths& paths, const JobSpec& spec, int64_t attempt, double started);

/// Throws invalid_option for a pattern that leads out of the working folder.
void check_pattern(const std::string& pattern);

/// The last line with text of a file, if there is one without the indentation of a hint; empty without any.
std::string last_line_of(const std::filesystem::path& file);

}  // namespace lockstep::jobs
