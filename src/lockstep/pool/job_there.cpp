#include "lockstep/pool/internal/job_there.h"

#include "lockstep/base/error.h"
#include "lockstep/base/random_hex.h"
#include "lockstep/base/share.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/lockstep_command.h"
#include "lockstep/jobs/attempt_error.h"

namespace lockstep::pool {
namespace {

namespace fs = std::filesystem;
using cluster::run_lockstep;

Json shown(const std::string& job) { return parse_json(run_lockstep({"job", "show", job, "--json"})); }

std::vector<std::string> batch_words(const std::string& profile, const BatchOptions& options) {
  std::vector<std::string> words{"batch", "--profile=" + profile, "--name=" + options.name,
                                 "--priority=" + std::to_string(options.priority)};
  if (options.workers > 0) words.push_back("--workers=" + std::to_string(options.workers));
  if (options.memory > 0)
    words.push_back("--memory=" + std::to_string(divided_up(options.memory, int64_t{1} << 20)) + "M");
  if (!options.after.empty()) words.push_back("--after=" + join(options.after, ","));
  if (options.requeue) words.emplace_back("--requeue");
  return words;
}

}  // namespace

FolderRemoval::~FolderRemoval() {
  std::error_code none;
  fs::remove_all(folder, none);
}

std::string submit_there(const std::string& profile, const std::vector<std::string>& command,
                         const std::vector<fs::path>& files, const BatchOptions& options) {
  std::vector<std::string> words = batch_words(profile, options);
  std::vector<std::string> names;
  for (const fs::path& file : files) names.push_back(file.string());
  words.push_back("--ship=" + join(names, ","));
  words.emplace_back("--");
  words.insert(words.end(), command.begin(), command.end());
  const std::string kJob = "job " + profile + ":";
  for (const std::string& line : split(run_lockstep(words), '\n')) {
    if (line.starts_with(kJob)) return line.substr(std::string_view("job ").size());
  }
  throw Error(ErrorCode::cluster, "the login node of the profile " + quote(profile) + " names no job",
              "lockstep cluster validate " + profile + " tries the profile");
}

jobs::JobView view_there(const std::string& job) {
  Json json = shown(job);
  json.erase("values");
  json.erase("files");
  jobs::JobView view;
  read_json(json, view, "what lockstep job show prints");
  view.id = job;
  return view;
}

bool cancel_there(const std::string& job) {
  return run_lockstep({"job", "cancel", job}).find("it was over already") == std::string::npos;
}

std::string diary_there(const std::string& job) { return run_lockstep({"job", "diary", job}); }

std::optional<Json> value_there(const std::string& job, const std::string& name) {
  const Json values = shown(job).value("values", Json::object());
  return values.contains(name) ? std::optional<Json>(values.at(name)) : std::nullopt;
}

FetchedJob::FetchedJob(const std::string& job)
    : removal_{fs::temp_directory_path() / ("lockstep-job-" + random_hex(8))} {
  const jobs::JobView view = view_there(job);
  if (view.state == jobs::JobState::cancelled)
    throw Error(ErrorCode::cancelled, "job " + job + " was cancelled");
  if (view.attempt > 0) run_lockstep({"job", "fetch", job, folder().string()});
  if (view.state == jobs::JobState::ended) return;
  if (auto error = jobs::read_error(folder() / jobs::kErrorFile)) {
    error->add_context("in job " + job);
    throw Error(*error);
  }
  throw Error(ErrorCode::cluster,
              "job " + job + " has failed" + (view.reason.empty() ? "" : ": " + view.reason),
              "lockstep job diary " + job + " shows what it has written");
}

}  // namespace lockstep::pool
