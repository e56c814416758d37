#include "lockstep/pool/batch_job.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/host.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/profile.h"
#include "lockstep/cluster/submitted_job.h"
#include "lockstep/jobs/job_store.h"
#include "lockstep/jobs/local_queue.h"
#include "lockstep/jobs/surroundings.h"
#include "lockstep/pool/internal/process.h"
#include "lockstep/pool/session.h"

namespace lockstep::pool {
namespace {

namespace fs = std::filesystem;
using jobs::JobPaths;
using jobs::JobState;

constexpr std::chrono::milliseconds kJobInterval{100};
constexpr double kSecondsBetweenJobWakes = 2;

fs::path input_folder(const JobPaths& paths) { return paths.folder / "input"; }
fs::path output_folder(const JobPaths& paths, int64_t attempt) {
  return paths.attempt_folder(attempt) / "output";
}

void write_packet(const fs::path& folder, const Packet& packet) {
  make_folders(folder);
  nn::write_safetensors(folder / "tensors.safetensors", open_tensors(packet));
  write_file_atomic(folder / "fields.json", packet.fields.dump() + "\n");
}

Packet read_packet_in(const fs::path& folder) {
  try {
    Packet packet;
    packet.fields = parse_json(read_file(folder / "fields.json"));
    packet.tensors = nn::read_safetensors(folder / "tensors.safetensors").tensors;
    return packet;
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::corrupt_data,
                quote((folder / "fields.json").string()) + " is damaged: " + error.what());
  }
}

fs::path error_file(const JobPaths& paths, int64_t attempt) {
  return paths.attempt_folder(attempt) / "error.json";
}

// What the task has thrown; nothing if it was not the task that failed.
std::optional<Error> thrown_error(const JobPaths& paths, int64_t attempt) {
  const fs::path file = error_file(paths, attempt);
  if (::access(file.c_str(), F_OK) != 0) return std::nullopt;
  const Json json = parse_json(read_file(file));
  ErrorCode code = ErrorCode::internal;
  for (int i = 0; i <= static_cast<int>(ErrorCode::internal); ++i) {
    if (name_of(static_cast<ErrorCode>(i)) == json.value("code", "")) code = static_cast<ErrorCode>(i);
  }
  Error error(code, json.value("message", ""), json.value("hint", ""));
  for (const Json& line : json.value("context", Json::array())) error.add_context(line.get<std::string>());
  error.add_context("in job " + paths.id());
  return error;
}

void write_error(const JobPaths& paths, int64_t attempt, const Error& error) {
  const Json json{{"code", name_of(error.code())},
                  {"message", error.message()},
                  {"hint", error.hint()},
                  {"context", error.context()}};
  write_file_atomic(error_file(paths, attempt),
                    json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

Packet first_packet(const std::vector<std::any>& results) {
  return std::any_cast<const Packet&>(results.front());
}

}  // namespace

jobs::JobView AnyBatchJob::show() const { return jobs::view_of(paths_); }

bool AnyBatchJob::done() const {
  const jobs::JobView view = show();
  return !view.state || jobs::is_over(*view.state);
}

bool AnyBatchJob::wait(std::chrono::milliseconds timeout) const {
  const auto start = std::chrono::steady_clock::now();
  double woken = 0;
  while (!done()) {
    const double seconds = seconds_since(start);
    if (seconds > std::chrono::duration<double>(timeout).count()) return false;
    if (seconds > woken + kSecondsBetweenJobWakes) {  // its runner may have been killed
      const jobs::LocalQueue queue(paths_.folder.parent_path());
      queue.tidy();
      queue.wake({program_path(), kRunnerArgument});
      woken = seconds;
    }
    std::this_thread::sleep_for(kJobInterval);
  }
  return true;
}

void AnyBatchJob::wait() const { wait(std::chrono::hours(24 * 365)); }

bool AnyBatchJob::cancel() const { return cluster::cancel_job(paths_, {program_path(), kRunnerArgument}); }

std::string AnyBatchJob::diary() const {
  const fs::path file = paths_.diary(jobs::newest_attempt(paths_));
  return ::access(file.c_str(), F_OK) == 0 ? read_file(file) : "";
}

std::optional<Json> AnyBatchJob::value(const std::string& name) const {
  return jobs::JobStore(paths_, jobs::newest_attempt(paths_)).value(name);
}

Packet AnyBatchJob::result() const {
  wait();
  const auto result = jobs::read_result(paths_);
  if (!result) throw Error(ErrorCode::not_found, "job " + id() + " was deleted");
  if (result->end == jobs::AttemptEnd::ended) return read_packet_in(output_folder(paths_, result->attempt));
  if (result->end == jobs::AttemptEnd::cancelled)
    throw Error(ErrorCode::cancelled,
                "job " + id() + " was cancelled" + (result->reason.empty() ? "" : ": " + result->reason));
  if (const auto error = thrown_error(paths_, result->attempt)) throw Error(*error);
  throw Error(ErrorCode::cluster, "job " + id() + " has failed: " + result->reason,
              "lockstep job diary " + id() + " shows what it has written");
}

JobPaths submit_task(const std::string& task, const Packet& input, const BatchOptions& options) {
  const std::string program = program_path();
  const cluster::NamedProfile profile = cluster::Profiles::of_user().find(options.profile);
  if (profile.profile.scheduler != "local")
    throw Error(
        ErrorCode::invalid_option,
        "a task cannot be submitted with the profile " + quote(profile.name) + ": it is not this machine",
        "use .profile = \"local\", or lockstep batch --profile " + profile.name + " -- PROGRAM");
  const jobs::Surroundings here = jobs::surroundings_here();
  const jobs::JobSpec spec{.name = options.name.empty() ? task : options.name,
                           .command = {program, kJobArgument, task, build_of_program()},
                           .working_folder = fs::current_path().string(),
                           .secrets = here.secrets,
                           .profile = profile.name,
                           .host = host_name(),
                           .workers = std::max<int64_t>(1, options.workers),
                           .memory = options.memory,
                           .priority = options.priority,
                           .after = options.after,
                           .requeue = options.requeue,
                           .submitted = now_seconds()};
  const fs::path root = jobs::jobs_folder();
  const jobs::LocalQueue::Making sign{jobs::LocalQueue(root)};
  JobPaths paths = jobs::make_job(root, spec, [&](const JobPaths& hidden) {
    jobs::write_variables(hidden, here);
    write_packet(input_folder(hidden), input);
  });
  cluster::submit_jobs({paths}, {.runner = {program, kRunnerArgument}});
  return paths;
}

int run_job_task(Session& session, const TaskTable& tasks) {
  const std::vector<std::string>& words = session.arguments();
  constexpr size_t kTask = 1, kBuild = 2, kWords = 3;
  const char* folder = std::getenv("LOCKSTEP_JOB");
  const auto attempt = parse_number<int64_t>(
      std::getenv("LOCKSTEP_JOB_ATTEMPT") == nullptr ? "" : std::getenv("LOCKSTEP_JOB_ATTEMPT"));
  if (words.size() != kWords || folder == nullptr || !attempt)
    throw Error(ErrorCode::invalid_option, std::string(kJobArgument) + " is for jobs alone");
  const JobPaths paths{folder};
  try {
    if (build_of_program() != words[kBuild])
      throw Error(ErrorCode::invalid_option, "the program was built again after the job was submitted",
                  "submit the job again");
    const Pool pool = session.open_pool({.workers = jobs::read_spec(paths).workers});
    const AnyTask& task = find_task(tasks, words[kTask]);
    const Packet input = read_packet_in(input_folder(paths));
    write_packet(output_folder(paths, *attempt), pool.run_packed(task, input));
  } catch (const Error& error) {
    write_error(paths, *attempt, error);
    throw;
  }
  return 0;
}

void run_job_runner(const std::string& root) {
  jobs::LocalQueue(root).run({program_path(), kRunnerArgument});
}

Packet Pool::run_packed(const AnyTask& task, const Packet& input) const {
  Work work{.name = std::string(task.name),
            .input = input,
            .run = [run = task.run, input](Worker& worker) { return std::any(run(worker, input)); },
            .is_task = true};
  check_may_wait();
  return Future<Packet>(start(std::move(work), {}, size()), first_packet).get();
}

}  // namespace lockstep::pool
