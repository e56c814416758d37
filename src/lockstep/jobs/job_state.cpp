#include "lockstep/jobs/job_state.h"

#include "lockstep/base/host.h"
#include "lockstep/jobs/job_lock.h"

namespace lockstep::jobs {
namespace {

JobState state_after(AttemptEnd end) {
  if (end == AttemptEnd::ended) return JobState::ended;
  return end == AttemptEnd::cancelled ? JobState::cancelled : JobState::failed;
}

}  // namespace

bool is_elsewhere(const JobSpec& spec) {
  return spec.scheduler == "local" && !spec.host.empty() && spec.host != host_name();
}

StateOfJob state_of(const JobPaths& paths, const JobSpec& spec) {
  StateOfJob found;
  // Before the result: an attempt that ends meanwhile is then seen as over.
  const bool is_local = spec.scheduler == "local";
  const bool held = is_local && is_held(paths.lock());
  found.attempt = newest_attempt(paths);
  if (found.result = read_result(paths); found.result) {
    found.state = state_after(found.result->end);
    return found;
  }
  // On a full disk the mark is all that tells of the end.
  if (is_local && !held && is_marked_cancelled(paths)) {
    found.state = JobState::cancelled;
    return found;
  }
  if (found.attempt == 0) return found;
  found.previous = read_attempt(paths, found.attempt);
  if (found.previous) return found;
  found.state = !is_local || held ? JobState::running : JobState::lost;
  return found;
}

}  // namespace lockstep::jobs
