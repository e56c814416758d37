// The scheduler Slurm, through its commands: they are the same in all of its versions, which its library is
// not.
#include <algorithm>
#include <chrono>
#include <fcntl.h>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/command.h"
#include "lockstep/cluster/internal/slurm.h"

namespace lockstep::cluster {
namespace {

namespace fs = std::filesystem;

constexpr int kTries = 4;
constexpr int kLooks = 4;
constexpr std::chrono::seconds kBetweenLooks{2};
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

class Slurm : public Scheduler {
 public:
  std::string submit(const Submission& submission) override {
    const std::string script = batch_script(submission);
    write_file_atomic(submission.folder / kScriptName, script);
    std::vector<std::string> words{"sbatch"};
    const std::string expedite = can_expedite(run_command({"sbatch", "--version"}).output) ? "=expedite" : "";
    for (const std::string& word : sbatch_options(submission))
      words.push_back(word == kRequeue ? word + expedite : word);
    CommandEnd end;
    for (int i = 0; i < kTries; ++i) {
      end = run_command(words, {.input = script});
      const std::string id = id_in(end.output);
      if (end.status == 0 && !id.empty()) return accepted(id, submission);
      if (!is_lost_answer(end)) break;
      // Slurm may have taken the job although its answer was lost: a second try would make a second job.
      const std::string found = find_by_name(submission.name);
      if (!found.empty()) return accepted(found, submission);
    }
    throw slurm_error("Slurm did not take the job " + quote(submission.name), end);
  }

  std::vector<Standing> states(const std::vector<std::string>& ids) override {
    const auto queue = shared_queue();
    std::vector<Standing> standings;
    for (const std::string& id : ids) {
      const auto found = queue.find(id);
      standings.push_back(found == queue.end() ? Standing{} : found->second.standing);
    }
    return standings;
  }

  void cancel(const std::string& id) override {
    const CommandEnd end = run_command({"scancel", id});
    forget_shared_queue();
    const bool is_over = end.errors.find("Invalid job id") != std::string::npos ||
                         end.errors.find("already completing") != std::string::npos ||
                         end.errors.find("already completed") != std::string::npos;
    if (end.status != 0 && !is_over) throw slurm_error("cannot cancel job " + id, end);
  }

  std::string log(const Submission& submission, int64_t most_bytes) override {
    const fs::path file = submission.folder / kLogName;
    std::error_code none;
    if (!fs::exists(file, none)) return "";
    const OpenFile log(file, O_RDONLY);
    const auto size = static_cast<int64_t>(fs::file_size(file));
    std::string text(static_cast<size_t>(std::min(size, most_bytes)), '\0');
    text.resize(log.read_at(std::max<int64_t>(0, size - most_bytes), text));
    return text;
  }

 private:
  static std::string id_in(const std::string& output) {
    const std::string id = first_line(output).substr(0, first_line(output).find(';'));
    return parse_number<int64_t>(id) ? id : "";
  }

  static std::string accepted(const std::string& id, const Submission& submission) {
    if (submission.array.empty()) add_to_shared_queue(id, submission.name);
    for (size_t i = 0; i < submission.array.size(); ++i)
      add_to_shared_queue(id + "_" + std::to_string(i), submission.name);
    return id;
  }

  // Asks until Slurm has answered more than once, because it may take the job a moment after the first
  // answer.
  static std::string find_by_name(const std::string& name) {
    int answers = 0;
    for (int i = 0; i < kLooks * 3 && answers < kLooks; ++i) {
      if (i > 0) std::this_thread::sleep_for(kBetweenLooks);
      const CommandEnd end =
          run_command({"squeue", "--me", "--noheader", "--states=all", "--name=" + name, "--format=%A"});
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

std::vector<std::string> sbatch_options(const Submission& submission) {
  const Profile& profile = submission.resources;
  const int64_t workers = ranks_of(profile);
  const bool is_array = !submission.array.empty();
  std::vector<std::string> options{
      "--parsable", "--job-name=" + submission.name, "--output=" + (submission.folder / kLogName).string(),
      "--open-mode=append", "--chdir=" + submission.folder.string(),
      "--nodes=" + std::to_string(profile.nodes), "--ntasks=" + std::to_string(workers),
      // To the batch script alone, which tells the ranks when it is ready for their end.
      "--signal=B:USR1@" + std::to_string(profile.signal_before),
      submission.may_requeue ? kRequeue : "--no-requeue"};
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) options.push_back(std::string(option) + "=" + value);
  };
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
  if (is_array) add("--array", "0-" + std::to_string(submission.array.size() - 1));
  options.insert(options.end(), profile.options.begin(), profile.options.end());
  return options;
}

std::string batch_script(const Submission& submission) {
  const Profile& profile = submission.resources;
  std::string script = "#!/bin/bash -l\n";
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
  for (const std::string& word : submission.command) words += (words.empty() ? "" : " ") + shell_word(word);
  if (submission.array.empty()) return script + "exec " + words + "\n";
  script += "folders=(\n";
  for (const fs::path& folder : submission.array) script += "  " + shell_word(folder.string()) + "\n";
  return script + ")\nexec " + words + " \"${folders[$SLURM_ARRAY_TASK_ID]}\"\n";
}

std::vector<std::string> srun_words(const Profile& profile) {
  std::vector<std::string> words{"srun", "--kill-on-bad-exit=1", "--label",
                                 // Nodes that do not come must not be waited for without an end.
                                 "--immediate=120", "--ntasks=" + std::to_string(ranks_of(profile))};
  if (profile.cores > 0) words.push_back("--cpus-per-task=" + std::to_string(profile.cores));
  return words;
}

std::unique_ptr<Scheduler> make_slurm(const Profile&) { return std::make_unique<Slurm>(); }

}  // namespace lockstep::cluster
