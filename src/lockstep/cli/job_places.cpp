#include "lockstep/cli/job_places.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/scheduler.h"
#include "lockstep/cluster/submitted_job.h"
#include "lockstep/jobs/local_queue.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using jobs::JobPaths;
using jobs::JobSpec;
using jobs::JobState;
using jobs::JobView;

JobState state_of_phase(cluster::Phase phase) {
  switch (phase) {
    case cluster::Phase::running:
      return JobState::running;
    case cluster::Phase::ended:
      return JobState::ended;
    case cluster::Phase::failed:
      return JobState::failed;
    case cluster::Phase::cancelled:
      return JobState::cancelled;
    case cluster::Phase::queued:
    case cluster::Phase::unknown:
      break;
  }
  return JobState::queued;
}

void add_standing(const cluster::Standing& standing, JobView& view) {
  if (standing.phase == cluster::Phase::unknown) return;
  view.state = state_of_phase(standing.phase);
  if (!standing.reason.empty() && standing.phase != cluster::Phase::running) view.reason = standing.reason;
}

}  // namespace

std::vector<std::string> runner_program() {
  std::error_code code;
  const fs::path self = fs::read_symlink("/proc/self/exe", code);
  if (code) throw errno_error(code.value(), "find", "this program");
  // A newer version may have replaced it.
  constexpr std::string_view kGone = " (deleted)";
  std::string program = self.string();
  if (program.ends_with(kGone)) program.resize(program.size() - kGone.size());
  return {program, "queue-runner"};
}

void wake_local_queue(const fs::path& root) {
  if (!fs::is_directory(root)) return;
  const jobs::LocalQueue queue(root);
  queue.tidy();
  queue.wake(runner_program());
}

void add_standings(std::vector<JobView>& views, Console& console) {
  std::map<std::string, std::vector<JobView*>> by_profile;
  for (JobView& view : views) {
    if (view.state && !is_over(*view.state) && view.scheduler != "local")
      by_profile[view.profile].push_back(&view);
  }
  for (const auto& [profile, waiting] : by_profile) {
    try {
      std::vector<std::string> ids;
      for (const JobView* view : waiting)
        ids.push_back(cluster::submitted_id({view->folder}, jobs::read_spec({view->folder})));
      const auto scheduler =
          cluster::make_scheduler(cluster::read_profile(JobPaths{waiting.front()->folder}.profile()));
      const auto standings = scheduler->states(ids);
      for (size_t i = 0; i < waiting.size(); ++i) add_standing(standings[i], *waiting[i]);
    } catch (const Error& error) {
      console.note("warning: " + printable(profile + ": " + error.message()) + "\n");
    }
  }
}

JobView job_now(const JobPaths& paths, Console& console) {
  std::vector<JobView> views{jobs::view_of(paths)};
  add_standings(views, console);
  return std::move(views.front());
}

std::string state_word(const JobView& view) {
  return view.state ? enum_names(*view.state)[static_cast<size_t>(*view.state)] : "unreadable";
}

bool is_job_over(const JobView& view) { return !view.state || is_over(*view.state); }

}  // namespace lockstep::cli
