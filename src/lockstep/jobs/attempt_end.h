// The end of an attempt on a disk that may be full: its result is worth waiting for.
#pragma once

#include <functional>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/jobs/job_folder.h"

namespace lockstep::jobs {

/// Calls `write`, which writes what an attempt leaves. While the disk is full it is called again each second,
/// until the job is cancelled or deleted, or one of `signals` comes, which stay blocked in this thread.
/// Returns that signal, else 0. Throws what `write` throws for another reason.
int write_when_there_is_space(const JobPaths& paths, const std::vector<int>& signals,
                              const std::function<void()>& write);

/// Whether it says that a disk, or the user's part of it, is full.
bool is_disk_full(const Error& error);

}  // namespace lockstep::jobs
