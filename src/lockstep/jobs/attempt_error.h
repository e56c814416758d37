// Why a process of an attempt failed, in its own words. A scheduler only tells exit statuses, and those of
// ranks that ended because of another one hide that one's.
#pragma once

#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/jobs/job_folder.h"

namespace lockstep::jobs {

/// Replaces what another process has written. Throws io.
void write_error(const JobPaths& paths, int64_t attempt, const Error& error);

/// In a process that a job has started: the same, unless another process has written already. Elsewhere
/// nothing. A folder that cannot be written is ignored.
void leave_error(const Error& error) noexcept;

/// Nothing if there is none, or none that can be read.
std::optional<Error> read_error(const JobPaths& paths, int64_t attempt);

/// From a copy of the file.
std::optional<Error> read_error(const std::filesystem::path& file);

/// Its name in the attempt's folder.
inline constexpr const char* kErrorFile = "error.json";

}  // namespace lockstep::jobs
