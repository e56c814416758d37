#include "lockstep/cli/job_places.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/host.h"
#include "lockstep/base/random_hex.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/scheduler.h"
#include "lockstep/jobs/local_queue.h"
#include "lockstep/record/known_part.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using jobs::JobPaths;
using jobs::JobSpec;
using jobs::JobState;
using jobs::JobView;

constexpr const char* kAttemptVerb = "slurm-attempt";

fs::path submission_file(const JobPaths& paths) { return paths.folder / "submission.json"; }

SubmittedJob read_submission(const JobPaths& paths) {
  constexpr int64_t kMostSubmissionBytes = 65'536;
  SubmittedJob submitted;
  if (::access(submission_file(paths).c_str(), F_OK) != 0) return submitted;
  try {
    read_json(
        record::known_part<SubmittedJob>(parse_json(read_file(submission_file(paths), kMostSubmissionBytes))),
        submitted, quote(submission_file(paths).string()));
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::corrupt_data,
                quote(submission_file(paths).string()) + " is damaged: " + error.what());
  }
  return submitted;
}

void write_submission(const JobPaths& paths, const SubmittedJob& submitted) {
  write_file_atomic(submission_file(paths), to_json(submitted).dump() + "\n");
}

cluster::Submission submission_of(const JobPaths& paths, const JobSpec& spec,
                                  const cluster::Profile& profile) {
  cluster::Submission submission{.name = read_submission(paths).name,
                                 .command = {profile.program, kAttemptVerb, paths.folder.string()},
                                 .folder = paths.folder,
                                 .resources = profile,
                                 .may_requeue = jobs::may_start_again(spec),
                                 .priority = spec.priority};
  for (const std::string& id : spec.after)
    submission.after.push_back(read_submission({paths.folder.parent_path() / id}).id);
  return submission;
}

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

fs::path folder_of_root(const JobPaths& paths) { return paths.folder.parent_path(); }

void check_machine(const JobSpec& spec) {
  if (spec.host == host_name()) return;
  throw Error(ErrorCode::cluster, "the job is in the queue of the machine " + quote(spec.host),
              "run this command there");
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

void submit_to_scheduler(const JobPaths& paths, const JobSpec& spec, const cluster::Profile& profile) {
  SubmittedJob submitted{.name = "lockstep-" + paths.id() + "-" + random_hex(4), .id = {}};
  write_submission(paths, submitted);
  submitted.id = cluster::make_scheduler(profile)->submit(submission_of(paths, spec, profile));
  write_submission(paths, submitted);
}

bool cancel_job(const JobPaths& paths) {
  const JobSpec spec = jobs::read_spec(paths);
  if (spec.scheduler == "local") {
    check_machine(spec);
    const bool cancelled = jobs::LocalQueue(folder_of_root(paths)).cancel(paths);
    wake_local_queue(folder_of_root(paths));
    return cancelled;
  }
  if (is_over(jobs::state_of(paths, spec).state)) return false;
  jobs::mark_cancelled(paths);
  const std::string id = read_submission(paths).id;
  if (!id.empty()) cluster::make_scheduler(cluster::read_profile(paths.profile()))->cancel(id);
  return true;
}

bool requeue_job(const JobPaths& paths) {
  const JobSpec spec = jobs::read_spec(paths);
  if (spec.scheduler == "local") {
    check_machine(spec);
    const bool queued = jobs::LocalQueue(folder_of_root(paths)).requeue(paths);
    wake_local_queue(folder_of_root(paths));
    return queued;
  }
  if (!is_over(jobs::state_of(paths, spec).state)) return false;
  jobs::forget_result(paths);
  ::unlink(paths.scheduler_id().c_str());
  submit_to_scheduler(paths, spec, cluster::read_profile(paths.profile()));
  return true;
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
      for (const JobView* view : waiting) ids.push_back(read_submission({view->folder}).id);
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
