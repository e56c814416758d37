// One command at a time starts a job again, deletes it, or ends it in the place of an attempt that is gone.
#pragma once

#include <optional>

#include "lockstep/jobs/job_folder.h"
#include "lockstep/jobs/job_lock.h"

namespace lockstep::jobs {

/// While the lock is held, no other command changes the job so. What was read of the job before may have
/// changed. Nothing if another command holds it, or has deleted the job. Throws io.
std::optional<FileLock> try_take_to_change(const JobPaths& paths);

/// The same. Throws not_found if the job was deleted, and io if another command holds the lock.
FileLock take_to_change(const JobPaths& paths);

}  // namespace lockstep::jobs
