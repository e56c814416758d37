#include "lockstep/cli/sweep_jobs.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/host.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/job_places.h"
#include "lockstep/cli/sweep_checks.h"
#include "lockstep/cli/sweep_status.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/cluster/submitted_job.h"
#include "lockstep/jobs/local_queue.h"
#include "lockstep/jobs/surroundings.h"
#include "lockstep/sweep/engine.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRunnerVerb = "sweep-runner";

cluster::NamedProfile profile_of(const sweep::SweepSpec& spec) {
  cluster::NamedProfile found = cluster::Profiles::of_user().find(spec.options.profile);
  if (!found.profile.login.empty())
    throw Error(ErrorCode::invalid_option,
                "the profile " + quote(found.name) + " is on " + found.profile.login +
                    ", and this sweep's jobs write into its folder here",
                "begin the sweep there with --profile " + shell_word(found.name) + " on the command line");
  // Each job has a trial at a time, on one machine.
  found.profile.nodes = 1;
  found.profile.workers = 1;
  found.profile.cores = spec.options.workers;
  return found;
}

// A copy of a sweep's folder, and one that was renamed, names jobs that work where it was.
bool works_elsewhere(const std::string& id, const sweep::SweepPaths& paths) {
  const fs::path job = jobs::jobs_folder() / id;
  std::error_code none;
  if (!fs::exists(job, none)) return false;  // it was removed
  try {
    const std::vector<std::string> words = jobs::read_spec({job}).command;
    return words.empty() || !fs::equivalent(words.back(), paths.folder, none);
  } catch (const Error&) {  // it is damaged, or was removed meanwhile
    return false;
  }
}

std::vector<std::string> known_jobs(const sweep::SweepPaths& paths) {
  std::error_code none;
  if (!fs::exists(paths.jobs(), none)) return {};
  constexpr int64_t kMostBytes = 1 << 20;
  try {
    auto ids = parse_json(read_file(paths.jobs(), kMostBytes)).get<std::vector<std::string>>();
    std::erase_if(ids, [&](const std::string& id) { return works_elsewhere(id, paths); });
    return ids;
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::corrupt_data, quote(paths.jobs().string()) + " is damaged: " + error.what(),
                "remove it; lockstep jobs lists the jobs of the sweep, and --resume makes others");
  }
}

jobs::JobPaths make_runner_job(const sweep::SweepPaths& paths, const sweep::SweepSpec& spec,
                               const cluster::NamedProfile& profile) {
  const bool is_local = profile.profile.scheduler == "local";
  jobs::JobSpec job{.name = "sweep-" + paths.folder.filename().string(),
                    .command = {is_local ? runner_program().front() : profile.profile.program, kRunnerVerb,
                                fs::absolute(paths.folder).string()},
                    .working_folder = spec.working_folder,
                    .profile = profile.name,
                    .scheduler = profile.profile.scheduler,
                    .host = host_name(),
                    .workers = is_local ? spec.options.workers : 1,
                    .requeue = true,
                    .submitted = now_seconds()};
  const jobs::Surroundings surroundings = jobs::surroundings_here(profile.profile.secrets);
  job.secrets = surroundings.secrets;
  const jobs::Fill fill = [&](const jobs::JobPaths& hidden) {
    jobs::write_variables(hidden, surroundings);
    if (!is_local) jobs::write_file_quick(hidden.profile(), to_json(profile.profile).dump(2) + "\n");
  };
  return jobs::make_job(jobs::jobs_folder(), job, fill);
}

}  // namespace

int64_t jobs_of_sweep(const sweep::SweepSpec& spec) {
  const cluster::Profile profile = cluster::Profiles::of_user().find(spec.options.profile).profile;
  (void)profile_of(spec);
  if (spec.options.trials > 0) return spec.options.trials;
  const bool is_local = profile.scheduler == "local";
  const int64_t workers = is_local && profile.workers == 0
                              ? jobs::LocalQueue(jobs::jobs_folder()).limits().workers
                              : cluster::ranks_of(profile);
  return std::max<int64_t>(1, workers / spec.options.workers);
}

bool are_trials_here(const sweep::SweepSpec& spec) {
  return spec.options.profile.empty() || profile_of(spec).profile.scheduler == "local";
}

std::vector<std::string> submit_sweep(const sweep::SweepPaths& paths, const sweep::SweepSpec& spec) {
  const cluster::NamedProfile profile = profile_of(spec);
  const cluster::Place place{.profile = profile.profile, .runner = runner_program()};
  const fs::path root = jobs::jobs_folder();
  cluster::check_jobs_folder(profile.profile, root);
  std::vector<std::string> ids = known_jobs(paths);
  std::set<std::string> damaged;  // another job takes the place of each
  for (const std::string& id : ids) {
    try {
      const jobs::JobPaths job = jobs::find_job(root, id);
      const jobs::JobSpec known = jobs::read_spec(job);
      // A kill between making a job and submitting it leaves it without an id.
      if (!cluster::requeue_job(job, place.runner) && cluster::submitted_id(job, known).empty())
        cluster::submit_jobs({job}, place);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::corrupt_data) damaged.insert(id);
      if (error.code() != ErrorCode::corrupt_data && error.code() != ErrorCode::not_found) throw;
    }
  }
  std::erase_if(ids, [&](const std::string& id) { return damaged.contains(id) || !fs::exists(root / id); });
  const int64_t wanted = jobs_of_sweep(spec);
  const jobs::LocalQueue::Making sign{jobs::LocalQueue(root)};
  std::vector<jobs::JobPaths> made;
  while (static_cast<int64_t>(ids.size()) < wanted) {
    made.push_back(make_runner_job(paths, spec, profile));
    ids.push_back(made.back().id());
  }
  write_file_atomic(paths.jobs(), Json(ids).dump() + "\n");
  if (!made.empty()) cluster::submit_jobs(made, place);
  wake_local_queue(root);
  return ids;
}

bool has_jobs_left(const sweep::SweepPaths& paths) {
  const std::vector<std::string> ids = known_jobs(paths);
  if (ids.empty()) return false;
  const fs::path root = jobs::jobs_folder();
  wake_local_queue(root);
  return std::any_of(ids.begin(), ids.end(), [&](const std::string& id) {
    std::error_code none;
    return fs::exists(root / id, none) && !is_over(jobs::view_of({root / id}));
  });
}

void ask_sweep_to_stop(const sweep::SweepPaths& paths) {
  const bool do_jobs_come = !sweep::is_worked_on(paths) && has_jobs_left(paths);
  do_jobs_come ? sweep::ask_jobs_to_stop(paths) : sweep::ask_to_stop(paths);
}

int run_sweep_runner(const Call& call, Console& console) {
  const sweep::SweepPaths paths{call.words.front()};
  sweep::SweepSpec spec = sweep::read_spec(paths);
  spec.options.trials = 1;
  launch::StopSignals signals("stopping: the trial saves what it has\n");
  const std::string program = fs::read_symlink("/proc/self/exe").string();
  const sweep::SweepEnd end = sweep::run_sweep(
      paths, spec,
      {.lockstep = program,
       .cores = spec.options.workers,
       .shared = true,
       .moves_workers = may_move_workers(spec),
       .stop = signals.token(),
       .report =
           [&](const sweep::Trial& trial, const std::string& note) {
             console.print("trial " + std::to_string(trial.number) + "  " +
                           (note.empty() ? enum_names(trial.state)[static_cast<size_t>(trial.state)] : note) +
                           "\n");
           },
       .note = [&](const std::string& note) { console.print(note + "\n"); }});
  console.print(waiting_text(end));
  console.print(end.is_complete ? "the sweep is complete\n" : "stopped\n");
  return signals.signal() == 0 ? 0 : launch::kSignalStatus + signals.signal();
}

}  // namespace lockstep::cli
