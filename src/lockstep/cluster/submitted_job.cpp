#include "lockstep/cluster/submitted_job.h"

#include <filesystem>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/random_hex.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/text.h"
#include "lockstep/jobs/job_change.h"
#include "lockstep/jobs/job_list.h"
#include "lockstep/jobs/job_lock.h"
#include "lockstep/jobs/job_state.h"
#include "lockstep/record/known_part.h"

namespace lockstep::cluster {
namespace {

namespace fs = std::filesystem;
using jobs::JobPaths;
using jobs::JobSpec;

constexpr int64_t kMostSubmissionBytes = 65'536;
constexpr const char* kLocal = "local";

/// JOB/submission.json. A job of the queue of this machine has none: its id there is its folder.
struct Submitted {
  std::string name{};
  std::string id{};
  int64_t place = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("name", self.name, "of no other submission to the scheduler");
    field("id", self.id, "the scheduler's; empty: its answer was not read yet");
    field("place", self.place, "of the job in the submission, from 0");
  };
};

fs::path submission_file(const JobPaths& job) { return job.folder / "submission.json"; }

void write_submission(const JobPaths& job, const Submitted& submitted) {
  write_file_atomic(submission_file(job), to_json(submitted).dump() + "\n");
}

void check_machine(const JobSpec& spec) {
  if (!jobs::is_elsewhere(spec)) return;
  throw Error(ErrorCode::cluster, "the job is in the queue of the machine " + quote(spec.host),
              "run this command there");
}

// Unknown for one that was never submitted, and for one that is gone without a result.
Phase phase_there(const std::string& id, const JobPaths& job, const JobSpec& spec) {
  if (id.empty()) return Phase::unknown;
  return make_scheduler(profile_of_job(job, spec))->states({id}).front().phase;
}

}  // namespace

std::string submitted_id(const JobPaths& job, const JobSpec& spec, const std::stop_token& stop) {
  if (spec.scheduler == kLocal) return job.folder.string();
  if (::access(submission_file(job).c_str(), F_OK) != 0) return "";
  Submitted submitted;
  try {
    read_json(
        record::known_part<Submitted>(parse_json(read_file(submission_file(job), kMostSubmissionBytes))),
        submitted, quote(submission_file(job).string()));
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::corrupt_data,
                quote(submission_file(job).string()) + " is damaged: " + error.what());
  }
  if (submitted.id.empty()) {
    const auto scheduler = make_scheduler(profile_of_job(job, spec));
    scheduler->set_stop(stop);
    submitted.id = scheduler->find(submitted.name, submitted.place);
    if (!submitted.id.empty()) write_submission(job, submitted);
  }
  return submitted.id;
}

void check_jobs_folder(const Profile& profile, const fs::path& root) {
  // A name below both, because one of the two may end with a slash.
  const auto place = [](const fs::path& folder) {
    std::error_code none;
    return fs::weakly_canonical(folder / "1", none);
  };
  if (profile.job_folder.empty() || place(profile.job_folder) == place(root)) return;
  throw Error(ErrorCode::invalid_option,
              "\"job-folder\" of the profile is " + quote(profile.job_folder) + ", and jobs are in " +
                  quote(root.string()) + " here",
              "export LOCKSTEP_JOBS=" + profile.job_folder);
}

Profile profile_of_job(const JobPaths& job, const JobSpec& spec) {
  return spec.scheduler == kLocal ? Profile{} : read_profile(job.profile());
}

std::vector<std::string> jobs_before(const fs::path& root, const std::vector<std::string>& words,
                                     const std::string& scheduler) {
  std::vector<std::string> ids;
  for (const std::string& word : words) {
    const JobPaths before = jobs::find_job(root, word);
    if (jobs::read_spec(before).scheduler != scheduler)
      throw Error(ErrorCode::invalid_option,
                  "job " + word + ", which is to end first, is of another scheduler",
                  "start the two with one profile");
    ids.push_back(before.id());
  }
  return ids;
}

namespace {

// Jobs that Slurm may start again all, or none of them: an array has one rule.
void submit_alike(const std::vector<JobPaths>& jobs, const Place& place) {
  const JobSpec spec = jobs::read_spec(jobs.front());
  Submission submission{.name = "lockstep-" + jobs.front().id() + "-" + random_hex(4),
                        .command = {place.profile.program, place.profile.scheduler + "-attempt"},
                        .resources = place.profile,
                        .may_requeue = jobs::may_start_again(spec),
                        .priority = spec.priority};
  for (const std::string& id : spec.after) {
    const JobPaths before{jobs.front().folder.parent_path() / id};
    // Slurm knows a job only until some minutes after its end.
    if (const auto result = jobs::read_result(before); result && result->end == jobs::AttemptEnd::ended)
      continue;
    submission.after.push_back(submitted_id(before, spec));
    if (submission.after.back().empty())
      throw Error(ErrorCode::cluster, "job " + id + ", which is to end first, was not submitted",
                  "lockstep job requeue " + id + " submits it");
  }
  const bool is_local = place.profile.scheduler == kLocal;
  std::vector<Submitted> submitted;
  for (const JobPaths& job : jobs) {
    submission.folders.push_back(job.folder);
    submitted.push_back({.name = submission.name, .place = static_cast<int64_t>(submitted.size())});
    if (!is_local) write_submission(job, submitted.back());
  }
  const std::vector<std::string> ids = make_scheduler(place.profile, place.runner)->submit(submission);
  for (size_t i = 0; i < jobs.size(); ++i) {
    submitted[i].id = ids[i];
    if (!is_local) write_submission(jobs[i], submitted[i]);
  }
}

}  // namespace

void submit_jobs(const std::vector<JobPaths>& jobs, const Place& place) {
  std::vector<JobPaths> again, once;
  for (const JobPaths& job : jobs)
    (jobs::may_start_again(jobs::read_spec(job)) ? again : once).push_back(job);
  for (const std::vector<JobPaths>* alike : {&again, &once}) {
    if (!alike->empty()) submit_alike(*alike, place);
  }
}

bool cancel_job(const JobPaths& job, const std::vector<std::string>& runner) {
  const JobSpec spec = jobs::read_spec(job);
  if (is_over(jobs::state_of(job, spec).state)) return false;
  // The scheduler of this machine writes the mark itself, while it holds its queue. Another machine finds it.
  if (spec.scheduler != kLocal || jobs::is_elsewhere(spec)) jobs::mark_cancelled(job);
  if (jobs::is_elsewhere(spec)) {
    // Unless the other machine runs it. Jobs that follow it wait for its result.
    if (const auto lock = jobs::FileLock::try_take(job.lock()); lock && !jobs::read_result(job))
      jobs::end_job(job, jobs::AttemptEnd::cancelled, "");
    return true;
  }
  const std::string id = submitted_id(job, spec);
  if (!id.empty()) make_scheduler(profile_of_job(job, spec), runner)->cancel(id);
  if (spec.scheduler == kLocal) return true;
  // The scheduler forgets it, or never knew it. An attempt that begins now sees the mark or the result, and
  // one that runs ends the job itself.
  const jobs::JobState state = jobs::state_of(job, spec).state;
  if (state == jobs::JobState::queued || (!is_over(state) && phase_there(id, job, spec) == Phase::unknown))
    jobs::end_job(job, jobs::AttemptEnd::cancelled, "");
  return true;
}

bool requeue_job(const JobPaths& job, const std::vector<std::string>& runner) {
  const jobs::FileLock change = jobs::take_to_change(job);
  const JobSpec spec = jobs::read_spec(job);
  check_machine(spec);
  if (!is_over(jobs::state_of(job, spec).state)) {
    if (spec.scheduler == kLocal) return false;
    const std::string id = submitted_id(job, spec);
    const Phase phase = phase_there(id, job, spec);
    if (phase == Phase::failed || phase == Phase::cancelled)
      make_scheduler(profile_of_job(job, spec))->cancel(id);  // it may wait for a job that has failed
    else if (phase != Phase::unknown && phase != Phase::ended)
      return false;
  }
  jobs::forget_result(job);
  ::unlink(job.scheduler_id().c_str());
  submit_jobs({job}, {.profile = profile_of_job(job, spec), .runner = runner});
  return true;
}

}  // namespace lockstep::cluster
