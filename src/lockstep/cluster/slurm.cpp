// The scheduler Slurm, through its commands: they are the same in all of its versions, which its library is
// not.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <thread>
#include <unistd.h>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/command.h"
#include "lockstep/cluster/internal/doubled_percent.h"
#include "lockstep/cluster/internal/end_of_file.h"
#include "lockstep/cluster/internal/slurm.h"
#include "lockstep/jobs/job_list.h"
#include "lockstep/launch/launcher.h"

namespace lockstep::cluster {
namespace {

namespace fs = std::filesystem;

constexpr int kTries = 4;
constexpr int kLooks = 4;
constexpr std::chrono::seconds kBetweenLooks{2};
constexpr int64_t kSecondsBeforeSignal = 45;
constexpr int64_t kMostOfOneUnit = 100'000'000;
constexpr const char* kRequeue = "--requeue";
constexpr const char* kLogName = "slurm.log";
constexpr const char* kScriptName = "slurm.sh";

bool is_lost_answer(const CommandEnd& end) {
  if (end.out_of_time) return true;
  const std::string errors = lower(end.errors);
  return errors.find("timed out") != std::string::npos ||
         errors.find("unable to contact") != std::string::npos ||
         errors.find("zero bytes were transmitted") != std::string::npos ||
         errors.find("connection refused") != std::string::npos;
}

Error slurm_error(const std::string& what, const CommandEnd& end) {
  std::string why = printable(first_line(end.errors));
  if (end.out_of_time) why = "no answer within the time";
  const std::string text = lower(end.errors);
  std::string hint = "look whether Slurm's controller is there: scontrol ping";
  if (end.status == 127) hint = "run this where Slurm's commands are, or set \"login\" in the profile";
  if (text.find("partition") != std::string::npos)
    hint = "sinfo lists the partitions; set \"partition\" in the profile";
  if (text.find("configuration is not available") != std::string::npos ||
      text.find("node count") != std::string::npos)
    hint = "ask for less: sinfo -N -o '%N %c %m %G' lists what the nodes have";
  return {ErrorCode::cluster, what + ": " + why, hint};
}

// A batch script that calls srun has to repeat the number of cores.
void add_size(std::vector<std::string>& words, const Profile& profile) {
  words.push_back("--ntasks=" + std::to_string(ranks_of(profile)));
  if (profile.cores > 0) words.push_back("--cpus-per-task=" + std::to_string(profile.cores));
}

std::vector<std::string> pool_words(const Profile& profile) {
  std::vector<std::string> words{"srun", kExportAll, "--no-kill", "--kill-on-bad-exit=0"};
  add_size(words, profile);
  return words;
}

bool is_array(const Submission& submission) { return submission.folders.size() > 1; }

// Slurm looks every half a minute whose limit is near, and may send the signal so much earlier. It must not
// come before the script can take it.
int64_t signal_before(const Profile& profile) {
  const auto limit = seconds_of_time_limit(profile.time);
  if (!limit || *limit == 0) return profile.signal_before;
  const int64_t whole_minutes = (*limit + 59) / 60 * 60;  // as Slurm takes it
  return std::clamp<int64_t>(whole_minutes - kSecondsBeforeSignal, 1, profile.signal_before);
}

// sbatch hands the variables of its surroundings on. In an allocation these are of its job: srun refuses two
// kinds of limits of memory, and the new job would take the numbers of an array's element and of its restarts
// for its own. The job of a rank is no rank.
std::vector<std::string> as_outside_of_jobs(const std::vector<std::string>& words) {
  const bool is_in_job = !environment_variable("SLURM_JOB_ID").empty();
  constexpr std::array<std::string_view, 4> kOfTheSite{"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS",
                                                       "SLURM_JWT"};
  const auto of_launcher = launch::launcher_variables(&std::getenv);
  std::vector<std::string> all{"env"};
  for (char* const* entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable = *entry, name = variable.substr(0, variable.find('='));
    const bool is_of_job = is_in_job && name.starts_with("SLURM_") &&
                           std::find(kOfTheSite.begin(), kOfTheSite.end(), name) == kOfTheSite.end();
    if (is_of_job || of_launcher.contains(name)) all.insert(all.end(), {"-u", std::string(name)});
  }
  if (all.size() == 1) return words;
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

class Slurm : public Scheduler {
 public:
  std::vector<std::string> submit(const Submission& submission) override {
    const std::string script = batch_script(submission);
    for (const fs::path& folder : submission.folders) write_file_atomic(folder / kScriptName, script);
    std::vector<std::string> words{"sbatch"};
    const std::string expedite = can_expedite(run_command({"sbatch", "--version"}).output) ? "=expedite" : "";
    for (const std::string& word : sbatch_options(submission))
      words.push_back(word == kRequeue ? word + expedite : word);
    words = as_outside_of_jobs(words);
    CommandEnd end;
    for (int i = 0; i < kTries; ++i) {
      // How a command through a login node calls jobs is not the job's concern, nor is a signal to the job in
      // which this program runs.
      end = run_command(
          words, {.input = script,
                  .environment = {std::string(jobs::kShownAs) + "=", std::string(kEarlySignal) + "="}});
      const std::string id = id_in(end.output);
      if (end.status == 0 && !id.empty()) return accepted(id, submission);
      if (end.status != 0 && !is_lost_answer(end)) break;
      // Slurm may have taken the job although its answer was lost: a second try would make a second job.
      const std::string found = find_by_name(submission.name);
      if (!found.empty()) return accepted(found, submission);
      if (end.status == 0) break;
    }
    throw slurm_error("Slurm did not take the job " + quote(submission.name), end);
  }

  std::vector<Standing> states(const std::vector<std::string>& ids) override {
    const auto queue = shared_queue(stop_);
    std::vector<Standing> standings;
    for (const std::string& id : ids) {
      const auto found = queue.find(id);
      standings.push_back(found == queue.end() ? Standing{} : found->second.standing);
    }
    return standings;
  }

  std::string find(const std::string& name, int64_t place) override {
    for (const auto& [id, line] : shared_queue(stop_)) {
      const size_t sign = id.find('_');
      if (line.name == name) return element(id.substr(0, sign), sign != std::string::npos, place);
    }
    return "";
  }

  void cancel(const std::string& id) override {
    const CommandEnd end = run_command({"scancel", id});
    forget_shared_queue();
    const bool is_over = end.errors.find("Invalid job id") != std::string::npos ||
                         end.errors.find("already completing") != std::string::npos ||
                         end.errors.find("already completed") != std::string::npos;
    if (end.status != 0 && !is_over) throw slurm_error("cannot cancel job " + id, end);
  }

  std::string log(const fs::path& folder, int64_t most_bytes) override {
    return end_of_file(folder / kLogName, most_bytes);
  }

 private:
  static std::string id_in(const std::string& output) {
    const std::string id = first_line(output).substr(0, first_line(output).find(';'));
    return parse_number<int64_t>(id) ? id : "";
  }

  static std::string element(const std::string& id, bool is_of_array, int64_t place) {
    return is_of_array ? id + "_" + std::to_string(place) : id;
  }

  static std::vector<std::string> accepted(const std::string& id, const Submission& submission) {
    std::vector<std::string> ids;
    for (size_t i = 0; i < submission.folders.size(); ++i) {
      ids.push_back(element(id, is_array(submission), static_cast<int64_t>(i)));
      add_to_shared_queue(ids.back(), submission.name);
    }
    return ids;
  }

  // Asks until Slurm has answered more than once, because it may take the job a moment after the first
  // answer.
  static std::string find_by_name(const std::string& name) {
    int answers = 0;
    for (int i = 0; i < kLooks * 3 && answers < kLooks; ++i) {
      if (i > 0) std::this_thread::sleep_for(kBetweenLooks);
      const CommandEnd end =
          run_command({"squeue", "--me", "--noheader", "--states=all", "--name=" + name, "--format=%F"});
      if (end.status != 0) continue;
      ++answers;
      if (const std::string id = id_in(end.output); !id.empty()) return id;
    }
    if (answers == 0)
      throw Error(ErrorCode::cluster,
                  "Slurm does not answer, so it is not known whether it took the job " + quote(name),
                  "look for it later: squeue --me --name=" + name);
    return "";
  }
};

}  // namespace

// A job that is queued again starts at once from Slurm 25.11 on; before, it waits for two minutes.
bool can_expedite(std::string_view version) {
  const std::vector<std::string> numbers = split(version.substr(version.rfind(' ') + 1), '.');
  if (numbers.size() < 2) return false;
  const int64_t major = parse_number<int64_t>(numbers[0]).value_or(0),
                minor = parse_number<int64_t>(numbers[1]).value_or(0);
  return major > 25 || (major == 25 && minor >= 11);
}

std::optional<int64_t> seconds_of_time_limit(std::string_view time) {
  const size_t dash = time.find('-');
  const bool has_days = dash != std::string_view::npos;
  std::vector<int64_t> units;
  for (const std::string& part : split(has_days ? time.substr(dash + 1) : time, ':')) {
    const auto number = parse_number<int64_t>(part);
    if (!number || *number < 0 || *number > kMostOfOneUnit) return std::nullopt;
    units.push_back(*number);
  }
  const auto days = parse_number<int64_t>(has_days ? time.substr(0, dash) : "0");
  if (!days || *days < 0 || *days > kMostOfOneUnit || units.size() > 3) return std::nullopt;
  // Without days two numbers are minutes and seconds, and one is minutes; with days the first one is hours.
  if (!has_days && units.size() < 3) units.insert(units.begin(), 0);
  units.resize(3, 0);
  return *days * 86'400 + units[0] * 3'600 + units[1] * 60 + units[2];
}

std::vector<std::string> sbatch_options(const Submission& submission) {
  const Profile& profile = submission.resources;
  const int64_t workers = ranks_of(profile);
  const fs::path& folder = submission.folders.front();
  // The log of an array's element is in the folder of its job, which only the script knows.
  const std::string log = is_array(submission) ? "/dev/null" : doubled_percent((folder / kLogName).string());
  std::vector<std::string> options{"--parsable",
                                   "--job-name=" + submission.name,
                                   "--output=" + log,
                                   "--open-mode=append",
                                   "--chdir=" + folder.string(),
                                   "--nodes=" + std::to_string(profile.nodes),
                                   "--ntasks=" + std::to_string(workers),
                                   submission.may_requeue ? kRequeue : "--no-requeue"};
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) options.push_back(std::string(option) + "=" + value);
  };
  // To the batch script alone, which tells the ranks when it is ready for their end.
  if (!submission.on_each_worker) add("--signal", "B:USR1@" + std::to_string(signal_before(profile)));
  if (workers % profile.nodes == 0) add("--ntasks-per-node", std::to_string(workers / profile.nodes));
  if (profile.cores > 0) add("--cpus-per-task", std::to_string(profile.cores));
  if (profile.gpus > 0) add("--gres", "gpu:" + std::to_string(profile.gpus));
  add("--mem", profile.memory);
  add("--time", profile.time);
  add("--partition", profile.partition);
  add("--account", profile.account);
  // Only an administrator can raise a priority.
  if (submission.priority < 0) add("--nice", std::to_string(-submission.priority));
  if (!submission.after.empty()) {
    add("--dependency", "afterok:" + join(submission.after, ":"));
    options.emplace_back("--kill-on-invalid-dep=yes");
  }
  if (submission.on_each_worker) options.emplace_back("--no-kill");
  if (is_array(submission)) add("--array", "0-" + std::to_string(submission.folders.size() - 1));
  options.insert(options.end(), profile.options.begin(), profile.options.end());
  return options;
}

std::string batch_script(const Submission& submission) {
  const Profile& profile = submission.resources;
  std::string script = "#!/bin/bash -l\n";
  if (!submission.on_each_worker) {
    for (const char* signal : {"USR1", "TERM"})
      script += std::string("trap 'export ") + kEarlySignal + "=" + signal + "' " + signal + "\n";
  }
  for (const std::string& module : profile.modules)
    script += "module load " + shell_word(module) + " || exit 1\n";
  for (const std::string& entry : worker_environment(profile)) {
    const size_t sign = entry.find('=');
    script += "export " + entry.substr(0, sign) + "=" + shell_word(entry.substr(sign + 1)) + "\n";
  }
  for (const std::string& path : profile.additional_paths) {
    script += "export PATH=" + shell_word(path) + ":\"$PATH\"\n";
    script += "export LD_LIBRARY_PATH=" + shell_word(path) + "\"${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}\"\n";
  }
  std::string words;
  if (submission.on_each_worker) words = join(pool_words(profile), " ") + " ";
  for (const std::string& word : submission.command) words += shell_word(word) + " ";
  if (!is_array(submission))
    return script + "exec " + words + shell_word(submission.folders.front().string()) + "\n";
  script += "folders=(\n";
  for (const fs::path& folder : submission.folders) script += "  " + shell_word(folder.string()) + "\n";
  return script + ")\nfolder=${folders[$SLURM_ARRAY_TASK_ID]}\ncd \"$folder\" || exit 1\nexec >>\"$folder/" +
         kLogName + "\" 2>&1\nexec " + words + "\"$folder\"\n";
}

std::vector<std::string> srun_words(const Profile& profile) {
  std::vector<std::string> words{"srun", kExportAll, "--kill-on-bad-exit=1", "--label",
                                 // Nodes that do not come must not be waited for without an end.
                                 "--immediate=45"};
  add_size(words, profile);
  return words;
}

std::unique_ptr<Scheduler> make_slurm(const Profile&, const std::vector<std::string>&) {
  return std::make_unique<Slurm>();
}

}  // namespace lockstep::cluster
