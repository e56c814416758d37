#include "lockstep/cluster/standings.h"

#include <map>

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

void add_standing(const Standing& standing, JobView& view) {
  if (standing.phase == Phase::unknown) return;
  view.state = state_of_phase(standing.phase);
  if (!standing.reason.empty() && standing.phase != Phase::running) view.reason = standing.reason;
}

}  // namespace

std::vector<std::string> add_standings(std::vector<JobView>& views) {
  std::map<std::string, std::vector<JobView*>> by_profile;
  for (JobView& view : views) {
    if (view.state && !is_over(*view.state) && view.scheduler != "local")
      by_profile[view.profile].push_back(&view);
  }
  std::vector<std::string> failures;
  for (const auto& [profile, waiting] : by_profile) {
    try {
      std::vector<std::string> ids;
      for (const JobView* view : waiting)
        ids.push_back(submitted_id({view->folder}, jobs::read_spec({view->folder})));
      const auto scheduler = make_scheduler(read_profile(jobs::JobPaths{waiting.front()->folder}.profile()));
      const auto standings = scheduler->states(ids);
      for (size_t i = 0; i < waiting.size(); ++i) {
        add_standing(standings[i], *waiting[i]);
        if (ids[i].empty() && waiting[i]->attempt == 0)
          waiting[i]->reason =
              "not submitted yet; if its client was killed: lockstep job requeue " + waiting[i]->id;
      }
    } catch (const Error& error) {
      failures.push_back(profile + ": " + error.message());
    }
  }
  return failures;
}

}  // namespace lockstep::cluster
