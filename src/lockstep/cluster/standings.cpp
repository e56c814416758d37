#include "lockstep/cluster/standings.h"

#include <map>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/cluster/scheduler.h"
#include "lockstep/cluster/submitted_job.h"

namespace lockstep::cluster {
namespace {

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

// It may have written its result since its folder was read.
bool has_ended_since(JobView& view) {
  const JobView now = jobs::view_of({view.folder});
  if (now.state && !is_over(*now.state)) return false;
  view = now;
  return true;
}

// A scheduler forgets a job some minutes after its end. One that left no result will never leave one.
void add_forgotten(const std::string& id, JobView& view) {
  if (id.empty() || has_ended_since(view)) return;
  view.state = JobState::lost;
  view.reason = view.scheduler + " does not know job " + id +
                " any longer, and it left no result; to start it again: lockstep job requeue " + view.id;
}

void add_standing(const Standing& standing, JobView& view) {
  const JobState state = state_of_phase(standing.phase);
  if (is_over(state) && has_ended_since(view)) return;
  if (view.state == JobState::running && state != JobState::running) view.reason.clear();
  view.state = state;
  if (standing.phase == Phase::failed)
    view.reason = standing.reason.empty() ? standing.word : standing.reason + " (" + standing.word + ")";
  else if (!standing.reason.empty() && standing.phase != Phase::running)
    view.reason = standing.reason;
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
        standings[i].phase == Phase::unknown ? add_forgotten(ids[i], *waiting[i])
                                             : add_standing(standings[i], *waiting[i]);
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
