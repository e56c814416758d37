// One command at a time starts a job again or deletes it.
#pragma once

#include "lockstep/jobs/job_folder.h"
#include "lockstep/jobs/job_lock.h"

namespace lockstep::jobs {

/// While the lock is held, no other command changes the job so. What was read of the job before may have
/// changed. Waits for two seconds. Throws not_found if the job was deleted, and io if another command holds
/// the lock.
FileLock take_to_change(const JobPaths& paths);

}  // namespace lockstep::jobs
