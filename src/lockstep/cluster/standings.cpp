#include "lockstep/cluster/standings.h"

#include <csignal>
#include <map>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/seconds.h"
#include "lockstep/cluster/scheduler.h"
#include "lockstep/cluster/submitted_job.h"
#include "lockstep/jobs/job_change.h"
#include "lockstep/jobs/job_run.h"
#include "lockstep/jobs/local_attempt.h"
#include "lockstep/launch/process.h"

namespace lockstep::cluster {
namespace {

using jobs::AttemptEnd;
using jobs::AttemptResult;
using jobs::JobState;
using jobs::JobView;

JobState state_of_phase(Phase phase) {
  switch (phase) {
    case Phase::running:
      return JobState::running;
    case Phase::ended:
      return JobState::ended;
    case Phase::failed:
      return JobState::failed;
    case Phase::cancelled:
      return JobState::cancelled;
    case Phase::queued:
    case Phase::unknown:
      break;
  }
  return JobState::queued;
}

// A scheduler forgets a job some minutes after its end, and the job may have written its result since its
// folder was read. One that left none will never leave one.
void add_forgotten(const std::string& id, JobView& view) {
  if (id.empty()) return;
  const JobView now = jobs::view_of({view.folder});
  if (!now.state || is_over(*now.state)) {
    view = now;
    return;
  }
  view.state = JobState::lost;
  view.reason = view.scheduler + " does not know job " + id +
                " any longer, and it left no result; to start it again: lockstep job requeue " + view.id;
}

void add_standing(const Standing& standing, JobView& view) {
  view.state = state_of_phase(standing.phase);
  if (!standing.reason.empty() && standing.phase != Phase::running) view.reason = standing.reason;
}

// Of a job that the scheduler has ended while its folder has no result that counts: of an attempt that was
// still saving at the time limit, or that the scheduler did not start again, or before an attempt began.
AttemptResult result_of_ended(const jobs::JobPaths& paths, const jobs::JobSpec& spec,
                              const Standing& standing) {
  const int64_t newest = jobs::newest_attempt(paths),
                attempt = jobs::is_forgotten(paths, newest) ? 0 : newest;
  const auto own = jobs::read_attempt(paths, attempt);
  if (own && is_final(own->end)) return *own;  // it was killed between the two writings
  AttemptResult result = own.value_or(AttemptResult{.attempt = attempt,
                                                    .status = launch::kSignalStatus + SIGKILL,
                                                    .step = jobs::step_of(spec),
                                                    .nodes = standing.nodes,
                                                    .ended = now_seconds()});
  if (const auto started = jobs::read_started(paths, attempt)) result.started = started->time;
  if (attempt > 0 && jobs::have_runs_ended(spec)) {
    result.end = AttemptEnd::ended;
    result.status = 0;
    result.reason.clear();
  } else if (standing.phase == Phase::cancelled || jobs::is_marked_cancelled(paths)) {
    result.end = AttemptEnd::cancelled;
    result.reason.clear();
  } else {
    result.end = AttemptEnd::failed;
    result.reason += (result.reason.empty() ? "" : "; ") + spec.scheduler + " ended the job: " +
                     (standing.reason.empty() ? standing.word : standing.reason + " (" + standing.word + ")");
  }
  return result;
}

// Writes the result of a job that a scheduler has ended without success. The scheduler soon forgets it, and
// with it the cause.
void settle(const std::string& id, const Standing& standing, JobView& view) {
  const jobs::JobPaths paths{view.folder};
  try {
    const auto change = jobs::try_take_to_change(paths);
    if (!change) return;
    const jobs::JobSpec spec = jobs::read_spec(paths);
    // It may have been started again, or have ended, since the scheduler was asked.
    if (submitted_id(paths, spec) != id) return;
    if (!jobs::read_result(paths)) {
      const AttemptResult result = result_of_ended(paths, spec, standing);
      if (result.attempt > 0)
        jobs::end_attempt(paths, result);
      else
        jobs::end_job(paths, result.end, result.reason);
    }
    view = jobs::view_of(paths);
  } catch (const Error&) {  // a later look can write it; on a full disk, the scheduler's words are shown
  }
}

}  // namespace

std::vector<std::string> add_standings(std::vector<JobView>& views, const std::stop_token& stop) {
  std::map<std::string, std::vector<JobView*>> by_profile;
  for (JobView& view : views) {
    if (view.state && !is_over(*view.state) && view.scheduler != "local")
      by_profile[view.profile].push_back(&view);
  }
  std::vector<std::string> failures;
  for (auto& [profile, waiting] : by_profile) {
    try {
      std::vector<std::string> ids;
      // One damaged job does not hide the others.
      std::erase_if(waiting, [&](const JobView* view) {
        try {
          ids.push_back(submitted_id({view->folder}, jobs::read_spec({view->folder}), stop));
          return false;
        } catch (const Error& error) {
          if (error.code() != ErrorCode::corrupt_data) throw;
          failures.push_back("job " + view->id + ": " + error.message());
          return true;
        }
      });
      if (waiting.empty()) continue;
      const auto scheduler = make_scheduler(read_profile(jobs::JobPaths{waiting.front()->folder}.profile()));
      scheduler->set_stop(stop);
      const auto standings = scheduler->states(ids);
      for (size_t i = 0; i < waiting.size(); ++i) {
        const Phase phase = standings[i].phase;
        phase == Phase::unknown ? add_forgotten(ids[i], *waiting[i])
                                : add_standing(standings[i], *waiting[i]);
        if (phase == Phase::failed || phase == Phase::cancelled) settle(ids[i], standings[i], *waiting[i]);
        if (ids[i].empty() && waiting[i]->attempt == 0)
          waiting[i]->reason =
              "not submitted yet; if its client was killed: lockstep job requeue " + waiting[i]->id;
      }
    } catch (const Error& error) {
      if (error.code() == ErrorCode::cancelled) break;
      failures.push_back(profile + ": " + error.message());
    }
  }
  return failures;
}

}  // namespace lockstep::cluster
