#include "lockstep/pool/batch_job.h"

#include <algorithm>
#include <filesystem>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/host.h"
#include "lockstep/base/random_hex.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/share.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/profile.h"
#include "lockstep/cluster/standings.h"
#include "lockstep/cluster/submitted_job.h"
#include "lockstep/jobs/attempt_error.h"
#include "lockstep/jobs/job_store.h"
#include "lockstep/jobs/local_queue.h"
#include "lockstep/jobs/surroundings.h"
#include "lockstep/pool/internal/job_program.h"
#include "lockstep/pool/internal/job_there.h"
#include "lockstep/pool/internal/process.h"

namespace lockstep::pool {
namespace {

namespace fs = std::filesystem;
using jobs::JobPaths;
using jobs::JobState;

constexpr std::chrono::milliseconds kJobInterval{100};
constexpr std::chrono::seconds kJobIntervalThere{2};
constexpr double kSecondsBetweenJobWakes = 2;
constexpr size_t kJobTask = 1, kJobBuild = 2, kJobWords = 3;  // after kJobArgument
constexpr const char* kLocal = "local";
constexpr const char* kOutput = "output";
constexpr const char* kFieldsFile = "fields.json";
constexpr const char* kTensorsFile = "tensors.safetensors";

fs::path input_folder(const JobPaths& paths) { return paths.folder / "input"; }
// Among the files that `job fetch` brings.
fs::path output_folder(const JobPaths& paths, int64_t attempt) { return paths.files(attempt) / kOutput; }

// A job that came through a login node has it among its shipped files.
fs::path given_folder(const JobPaths& paths) {
  std::error_code none;
  return fs::exists(input_folder(paths), none) ? input_folder(paths) : paths.shipped();
}

void write_packet(const fs::path& folder, const Packet& packet) {
  make_folders(folder);
  nn::write_safetensors(folder / kTensorsFile, open_tensors(packet));
  write_file_atomic(folder / kFieldsFile, packet.fields.dump() + "\n");
}

Packet read_packet_in(const fs::path& folder) {
  try {
    Packet packet;
    packet.fields = parse_json(read_file(folder / kFieldsFile));
    packet.tensors = nn::read_safetensors(folder / kTensorsFile).tensors;
    return packet;
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::corrupt_data,
                quote((folder / kFieldsFile).string()) + " is damaged: " + error.what());
  }
}

// The runner of a job of this machine may have been killed.
void wake_local_queue(const fs::path& root) {
  const jobs::LocalQueue queue(root);
  queue.tidy();
  queue.wake({program_path(), kRunnerArgument});
}

Packet first_packet(const std::vector<std::any>& results) {
  return std::any_cast<const Packet&>(results.front());
}

// Puts what was asked for into the profile.
void take_options(cluster::NamedProfile& named, const BatchOptions& options) {
  cluster::Profile& profile = named.profile;
  if (profile.scheduler == kLocal) return;
  if (options.workers > 0) profile.workers = options.workers;
  if (profile.workers > 0) profile.nodes = std::min(profile.nodes, profile.workers);
  if (options.memory > 0) profile.memory = std::to_string(divided_up(options.memory, int64_t{1} << 20)) + "M";
}

// Of a job that its scheduler has ended, or that is gone.
Error error_without_result(const jobs::JobView& view) {
  if (!view.state) return {ErrorCode::not_found, "job " + view.id + " was deleted"};
  if (view.state == JobState::cancelled)
    return {ErrorCode::cancelled, "job " + view.id + " was cancelled before it began"};
  return {ErrorCode::cluster,
          "job " + view.id + " has failed before its program began" +
              (view.reason.empty() ? "" : ": " + view.reason),
          "the scheduler's log is in " + view.folder};
}

AnyBatchJob submit_task_there(const cluster::NamedProfile& named, const std::string& task,
                              const Packet& input, const BatchOptions& options) {
  const fs::path folder = fs::temp_directory_path() / ("lockstep-task-" + random_hex(8));
  write_packet(folder, input);
  const FolderRemoval at_end{folder};
  return AnyBatchJob(submit_there(named.name, {program_path(), kJobArgument, task, build_of_program()},
                                  {folder / kFieldsFile, folder / kTensorsFile},
                                  {.workers = options.workers,
                                   .name = options.name.empty() ? task : options.name,
                                   .after = options.after,
                                   .priority = options.priority,
                                   .memory = options.memory,
                                   .requeue = options.requeue}));
}

}  // namespace

AnyBatchJob::AnyBatchJob(const std::string& id) {
  if (id.find(':') != std::string::npos)
    there_ = id;
  else
    paths_ = jobs::find_job(jobs::jobs_folder(), id);
}

jobs::JobView AnyBatchJob::show() const {
  if (is_there()) return view_there(there_);
  std::vector<jobs::JobView> views{jobs::view_of(paths_)};
  cluster::add_standings(views);  // a scheduler that cannot be reached may answer the next time
  return std::move(views.front());
}

bool AnyBatchJob::done() const { return jobs::is_over(show()); }

bool AnyBatchJob::wait(std::chrono::milliseconds timeout) const {
  const auto start = std::chrono::steady_clock::now();
  double woken = 0;
  while (!done()) {
    const double seconds = seconds_since(start);
    if (seconds > std::chrono::duration<double>(timeout).count()) return false;
    if (!is_there() && seconds > woken + kSecondsBetweenJobWakes) {
      wake_local_queue(paths_.folder.parent_path());
      woken = seconds;
    }
    std::this_thread::sleep_for(is_there() ? kJobIntervalThere : kJobInterval);
  }
  return true;
}

void AnyBatchJob::wait() const { wait(std::chrono::hours(24 * 365)); }

bool AnyBatchJob::cancel() const {
  if (is_there()) return cancel_there(there_);
  return cluster::cancel_job(paths_, {program_path(), kRunnerArgument});
}

std::string AnyBatchJob::diary() const {
  if (is_there()) return diary_there(there_);
  const fs::path file = paths_.diary(jobs::newest_attempt(paths_));
  return ::access(file.c_str(), F_OK) == 0 ? read_file(file) : "";
}

std::optional<Json> AnyBatchJob::value(const std::string& name) const {
  if (is_there()) return value_there(there_, name);
  return jobs::JobStore(paths_, jobs::newest_attempt(paths_)).value(name);
}

Packet AnyBatchJob::result() const {
  wait();
  if (is_there()) {
    const FetchedJob fetched(there_);
    return read_packet_in(fetched.folder() / kOutput);
  }
  const auto result = jobs::read_result(paths_);
  if (!result) throw error_without_result(show());
  if (result->end == jobs::AttemptEnd::ended) return read_packet_in(output_folder(paths_, result->attempt));
  if (result->end == jobs::AttemptEnd::cancelled)
    throw Error(ErrorCode::cancelled,
                "job " + id() + " was cancelled" + (result->reason.empty() ? "" : ": " + result->reason));
  if (auto error = jobs::read_error(paths_, result->attempt)) {
    error->add_context("in job " + id());
    throw Error(*error);
  }
  throw Error(ErrorCode::cluster, "job " + id() + " has failed: " + result->reason,
              "lockstep job diary " + id() + " shows what it has written");
}

AnyBatchJob submit_task(const std::string& task, const Packet& input, const BatchOptions& options) {
  const std::string program = program_path();
  cluster::NamedProfile named = cluster::Profiles::of_user().find(options.profile);
  cluster::Profile& profile = named.profile;
  if (!profile.login.empty()) return submit_task_there(named, task, input, options);
  take_options(named, options);
  const bool is_local = profile.scheduler == kLocal;
  const fs::path root = jobs::jobs_folder();
  cluster::check_jobs_folder(profile, root);
  const jobs::Surroundings here = jobs::surroundings_here(profile.secrets);
  const jobs::JobSpec spec{
      .name = options.name.empty() ? task : options.name,
      .command = {program, kJobArgument, task, build_of_program()},
      .working_folder = fs::current_path().string(),
      .secrets = here.secrets,
      .profile = named.name,
      .scheduler = profile.scheduler,
      .host = host_name(),
      .workers = is_local ? std::max<int64_t>(1, options.workers) : cluster::ranks_of(profile),
      .nodes = profile.nodes,
      .memory = options.memory,
      .priority = options.priority,
      .after = cluster::jobs_before(root, options.after, profile.scheduler),
      .requeue = options.requeue,
      .submitted = now_seconds()};
  const jobs::LocalQueue::Making sign{jobs::LocalQueue(root)};
  JobPaths paths = jobs::make_job(root, spec, [&](const JobPaths& hidden) {
    jobs::write_variables(hidden, here);
    if (!is_local) jobs::write_file_quick(hidden.profile(), to_json(profile).dump(2) + "\n");
    write_packet(input_folder(hidden), input);
  });
  cluster::submit_jobs({paths}, {.profile = profile, .runner = {program, kRunnerArgument}});
  return AnyBatchJob(paths);
}

void check_job_build(const std::vector<std::string>& words) {
  if (words.size() != kJobWords || words.front() != kJobArgument) return;
  if (build_of_program() == words[kJobBuild]) return;
  throw Error(ErrorCode::invalid_option,
              "the program on " + host_name() + " is another build than the one that submitted the job",
              "submit the job again, with the same program at " + program_path() + " on all machines");
}

int run_job_task(Session& session, const TaskTable& tasks) {
  const std::vector<std::string>& words = session.arguments();
  const std::string folder = environment_variable("LOCKSTEP_JOB");
  const auto attempt = parse_number<int64_t>(environment_variable("LOCKSTEP_JOB_ATTEMPT"));
  if (words.size() != kJobWords || folder.empty() || !attempt)
    throw Error(ErrorCode::invalid_option, std::string(kJobArgument) + " is for jobs alone");
  const JobPaths paths{folder};
  try {
    const Pool pool = session.open_pool({.workers = jobs::read_spec(paths).workers});
    const AnyTask& task = find_task(tasks, words[kJobTask]);
    const Packet input = read_packet_in(given_folder(paths));
    write_packet(output_folder(paths, *attempt), pool.run_packed(task, input));
  } catch (const Error& error) {
    jobs::write_error(paths, *attempt, error);
    throw;
  }
  return 0;
}

void run_job_runner(const std::string& root) {
  jobs::LocalQueue(root).run({program_path(), kRunnerArgument});
}

Packet Pool::run_packed(const AnyTask& task, const Packet& input) const {
  Work work{
      .name = std::string(task.name),
      .input = input,
      .run = [run = task.run](Worker& worker, const Packet& packet) { return std::any(run(worker, packet)); },
      .is_task = true};
  check_may_wait();
  return Future<Packet>(start(std::move(work), {}, size()), first_packet).get();
}

}  // namespace lockstep::pool
