// The end of an attempt on a disk that may be full: its result is worth waiting for.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/jobs/job_folder.h"

namespace lockstep::jobs {

/// Adds one more reason, if the text is not empty.
void add_reason(const std::string& reason, AttemptResult& result);

/// Whether the job was neither cancelled nor deleted.
bool is_wanted(const JobPaths& paths);

/// Calls `write`, which writes what an attempt leaves. While the disk is full it is called again each second,
/// until the job is cancelled or deleted, or one of `signals` comes, which stay blocked in this thread.
/// Returns that signal, else 0. Throws what `write` throws for another reason.
int write_when_there_is_space(const JobPaths& paths, int64_t attempt, const std::vector<int>& signals,
                              const std::function<void()>& write);

/// Whether the attempt had to wait there. A mark in its folder says so, also to other machines.
bool waits_for_space(const JobPaths& paths, int64_t attempt);

/// Calls it once. Returns false if it throws Error.
bool try_to_write(const std::function<void()>& write);

}  // namespace lockstep::jobs
