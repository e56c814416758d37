#include "lockstep/cli/batch.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>
#include <unistd.h>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/host.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/command_words.h"
#include "lockstep/cli/data_places.h"
#include "lockstep/cli/job_places.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/cluster/command.h"
#include "lockstep/cluster/submitted_job.h"
#include "lockstep/jobs/fetched_files.h"
#include "lockstep/jobs/local_queue.h"
#include "lockstep/jobs/surroundings.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

// So that the first ones of many need not wait for the last.
constexpr size_t kMostAtOnce = 100;
using jobs::JobPaths;
using jobs::JobSpec;

struct BatchChoice {
  std::string profile;
  int64_t workers = 0;
  int64_t nodes = 0;
  std::string name;
  std::string memory;
  int64_t priority = 0;
  std::vector<std::string> after;
  bool requeue = false;
  std::string commands;
  std::vector<std::string> path;
  std::vector<std::string> ship;
  std::vector<std::string> fetch;
  std::vector<std::string> secrets;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Where it runs");
    field("profile", self.profile, "where it runs; empty: the default profile (lockstep cluster list)");
    field("workers", self.workers,
          "workers that it uses; it waits until they are free. 0: one; for train all of the queue or of the "
          "profile",
          between(0, 1'000'000));
    field("nodes", self.nodes, "machines; 0: those of the profile", between(0, 100'000));
    field("memory", self.memory, "memory that it uses, such as 4G; it waits until that is free");
    field("Order");
    field("name", self.name, "a name, by which other commands find it; empty: that of the command");
    field("priority", self.priority, "a job with a higher one starts first", between(-1'000'000, 1'000'000));
    field("after", self.after, "jobs that must have ended well before, separated by commas");
    field(
        "requeue", self.requeue,
        "start it again after it was killed; training continues from its checkpoint and needs no --requeue");
    field("Commands and files");
    field("commands", self.commands, "file with a command on each line: a job for each");
    field("path", self.path, "folders that are first in PATH and LD_LIBRARY_PATH, separated by commas");
    field("ship", self.ship,
          "files to copy into the job now, separated by commas; the command finds them in PATH and in "
          "$LOCKSTEP_SHIPPED");
    field("fetch", self.fetch,
          "patterns of files that the command writes, such as *.csv,out/*; job fetch brings them back");
    field("secrets", self.secrets,
          "variables whose values are not written to the job's folder, separated by commas; those with KEY, "
          "SECRET, "
          "TOKEN, PASSWORD or CREDENTIAL in their names never are");
  };
};

// All that the jobs of one call share.
struct Batch {
  BatchChoice choice;
  cluster::NamedProfile profile;
  fs::path root;
  jobs::Surroundings surroundings{};
  JobSpec spec{};  // without name, command and run folder
};

// Only the queue of this machine counts it. Slurm takes other words: 4096 are megabytes, and 0 is all.
int64_t counted_memory(const cluster::Profile& profile) {
  if (profile.memory.empty()) return 0;
  if (profile.scheduler != "local") {
    cluster::check_profile({.scheduler = profile.scheduler, .memory = profile.memory});
    return 0;
  }
  const auto bytes = parse_bytes(profile.memory);
  if (!bytes)
    throw Error(ErrorCode::invalid_option, "--memory cannot be " + quote(profile.memory),
                "give a size such as 4G or 500M");
  return *bytes;
}

// JSON holds no other texts: the command would get other words than these.
void check_texts(const JobSpec& spec) {
  const auto check = [](const std::string& text, const std::string& what) {
    if (!is_utf8(text))
      throw Error(ErrorCode::invalid_option,
                  "a job cannot keep " + what + " " + quote(text) + ", whose bytes are not UTF-8",
                  "rename the file or folder");
  };
  for (const std::string& word : spec.command) check(word, "the word");
  check(spec.working_folder, "the working folder");
  check(spec.run_folder, "the folder of the run");
  for (const auto& [words, what] :
       {std::pair{&spec.paths, "the folder"}, {&spec.shipped, "the file"}, {&spec.fetch, "the pattern"}})
    for (const std::string& word : *words) check(word, what);
}

void check_job_name(const std::string& name) {
  if (name.empty()) return;
  const bool good = name.front() != '.' && name.front() != '-' &&
                    std::all_of(name.begin(), name.end(), [](unsigned char c) {
                      return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
                    });
  if (good && !parse_number<int64_t>(name)) return;
  throw Error(ErrorCode::invalid_option, "a job cannot have the name " + quote(printable(name)),
              good ? "a number alone is the number of a job; use letters too"
                   : "use letters, digits, '-', '_' and '.'");
}

// Lists of files and folders, as seen from here.
std::vector<std::string> whole_paths(const std::vector<std::string>& names, const char* option,
                                     bool folders) {
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    const fs::path path = fs::absolute(name).lexically_normal();
    std::error_code code;
    if (folders ? !fs::is_directory(path, code) : !fs::is_regular_file(path, code))
      throw Error(ErrorCode::not_found,
                  std::string(option) + " " + quote(name) + " is no " + (folders ? "folder" : "file"),
                  "check the path");
    paths.push_back(path.string());
  }
  return paths;
}

Batch batch_of(const Call& call) {
  Batch batch{.choice = settings_of<BatchChoice>(call), .profile = {}, .root = jobs::jobs_folder()};
  const BatchChoice& choice = batch.choice;
  check_job_name(choice.name);
  batch.profile = cluster::Profiles::of_user().find(choice.profile);
  cluster::Profile& profile = batch.profile.profile;
  if (choice.workers > 0) profile.workers = choice.workers;
  if (choice.nodes > 0) profile.nodes = choice.nodes;
  if (!choice.memory.empty()) profile.memory = choice.memory;
  cluster::check_jobs_folder(profile, batch.root);
  const bool is_local = profile.scheduler == "local";
  if (is_local && profile.nodes > 1)
    throw Error(ErrorCode::invalid_option,
                "the profile " + quote(batch.profile.name) + " is this machine alone",
                "use --workers; lockstep cluster list shows other profiles");
  batch.spec.profile = batch.profile.name;
  batch.spec.scheduler = profile.scheduler;
  batch.spec.host = host_name();
  batch.spec.working_folder = fs::current_path().string();
  batch.spec.nodes = profile.nodes;
  batch.spec.memory = counted_memory(profile);
  batch.spec.priority = choice.priority;
  batch.spec.requeue = choice.requeue;
  batch.spec.paths = is_local ? whole_paths(choice.path, "--path", true) : choice.path;
  for (const std::string& file : whole_paths(choice.ship, "--ship", false)) {
    const std::string name = fs::path(file).filename().string();
    if (std::find(batch.spec.shipped.begin(), batch.spec.shipped.end(), name) != batch.spec.shipped.end())
      throw Error(ErrorCode::invalid_option, "--ship names two files " + quote(name),
                  "give one another name");
    batch.spec.shipped.push_back(name);
  }
  for (const std::string& pattern : choice.fetch) jobs::check_pattern(pattern);
  batch.spec.fetch = choice.fetch;
  batch.spec.after = cluster::jobs_before(batch.root, choice.after, profile.scheduler);
  std::vector<std::string> secrets = choice.secrets;
  secrets.insert(secrets.end(), profile.secrets.begin(), profile.secrets.end());
  batch.surroundings = jobs::surroundings_here(secrets);
  batch.spec.secrets = batch.surroundings.secrets;
  return batch;
}

// A program that is not there would fail only when the job starts, which may be tomorrow.
void check_program(const Batch& batch, const std::string& program) {
  const auto& shipped = batch.spec.shipped;
  if (std::find(shipped.begin(), shipped.end(), program) != shipped.end()) return;
  bool is_there = program.find('/') != std::string::npos ? ::access(program.c_str(), X_OK) == 0
                                                         : cluster::has_program(program);
  for (const std::string& folder : batch.spec.paths)
    is_there = is_there || ::access((fs::path(folder) / program).c_str(), X_OK) == 0;
  if (!is_there)
    throw Error(ErrorCode::not_found, "there is no program " + quote(program),
                "check its name; it may be a command of Lockstep, a program in PATH or a path");
}

std::string name_of(const std::string& wanted, const CommandWords& command) {
  std::string name = wanted.empty() ? command.name : wanted;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '_' && c != '-') c = '-';
  }
  return name;
}

int64_t workers_of(const Batch& batch, const CommandWords& command) {
  if (batch.choice.workers > 0) return batch.choice.workers;
  if (command.workers > 0) return command.workers;
  if (batch.profile.profile.workers > 0) return batch.profile.profile.workers;
  return command.trains && batch.spec.scheduler == "local" ? jobs::LocalQueue(batch.root).limits().workers
                                                           : 1;
}

// Refuses what would fail only when the job starts.
CommandWords read_command(const Batch& batch, const std::vector<std::string>& words) {
  const bool is_local = batch.spec.scheduler == "local";
  if (words.front().empty())
    throw Error(ErrorCode::invalid_option, "the first word of the command is empty",
                "usage: lockstep batch [options] -- COMMAND");
  CommandWords command =
      read_command_words(words, is_local ? runner_program().front() : batch.profile.profile.program);
  if (is_local && !command.is_ours) check_program(batch, command.words.front());
  return command;
}

// A job that comes before it may still make its data.
void check_data(const Batch& batch, const CommandWords& command) {
  if (batch.spec.scheduler == "local" && command.trains && command.words[1] == "train" &&
      jobs::LocalQueue(batch.root).is_empty())
    check_data_of_training({command.words.begin() + 2, command.words.end()});
}

JobPaths make_one(const Batch& batch, const CommandWords& command, const std::string& wanted_name) {
  const bool is_local = batch.spec.scheduler == "local";
  JobSpec spec = batch.spec;
  spec.name = name_of(wanted_name, command);
  spec.command = command.words;
  spec.submitted = now_seconds();
  spec.workers = workers_of(batch, command);
  if (is_local && command.trains && command.workers == 0 && batch.choice.workers > 0) {
    spec.command.emplace_back("--workers");
    spec.command.push_back(std::to_string(spec.workers));
  }
  if (command.trains)
    spec.run_folder = command.output.empty() ? "run" : fs::absolute(command.output).string();
  check_texts(spec);
  const jobs::Fill fill = [&](const JobPaths& hidden) {
    jobs::write_variables(hidden, batch.surroundings);
    if (!is_local) jobs::write_file_quick(hidden.profile(), to_json(batch.profile.profile).dump(2) + "\n");
    if (spec.shipped.empty()) return;
    make_folders(hidden.shipped());
    for (size_t i = 0; i < spec.shipped.size(); ++i) {
      std::error_code code;
      fs::copy_file(batch.choice.ship[i], hidden.shipped() / spec.shipped[i], code);
      if (code) throw errno_error(code.value(), "copy", batch.choice.ship[i]);
    }
  };
  return jobs::make_job(batch.root, spec, fill);
}

std::vector<std::vector<std::string>> commands_in(const std::string& file) {
  constexpr int64_t kMostBytes = 64 << 20;
  std::vector<std::vector<std::string>> commands;
  int64_t number = 0;
  for (const std::string& line : split(read_file(file, kMostBytes), '\n')) {
    ++number;
    std::vector<std::string> words =
        with_context([&] { return "in line " + std::to_string(number) + " of " + quote(file); },
                     [&] { return shell_words(line); });
    if (!words.empty()) commands.push_back(std::move(words));
  }
  if (commands.empty())
    throw Error(ErrorCode::invalid_option, "there is no command in " + quote(file), "write one on each line");
  return commands;
}

void warn_of_size(const std::string& id, const JobSpec& spec, const jobs::QueueLimits& limits,
                  Console& console) {
  const auto warn = [&](const std::string& asked, const std::string& there) {
    console.note("warning: job " + id + " asks for " + asked + ", and the queue of this machine has " +
                 there + "; it runs when nothing else does\n");
  };
  if (spec.workers > limits.workers) warn(counted(spec.workers, "worker"), with_commas(limits.workers));
  if (spec.memory > limits.memory) warn(as_bytes(spec.memory) + " of memory", as_bytes(limits.memory));
}

}  // namespace

std::vector<FieldInfo> batch_fields() { return fields_of<BatchChoice>(); }

void submit_batch(const Call& call, const Submitted& submitted) {
  const Batch batch = batch_of(call);
  if (batch.choice.commands.empty() == call.words.empty())
    throw Error(ErrorCode::invalid_option,
                call.words.empty() ? "lockstep batch needs a COMMAND"
                                   : "lockstep batch takes a COMMAND or --commands, not both",
                "usage: lockstep batch [options] -- COMMAND");
  // All are read before the first job is made.
  std::vector<CommandWords> commands;
  for (const std::vector<std::string>& words : call.words.empty()
                                                   ? commands_in(batch.choice.commands)
                                                   : std::vector<std::vector<std::string>>{call.words})
    commands.push_back(read_command(batch, words));
  if (!call.words.empty()) check_data(batch, commands.front());
  for (size_t first = 0; first < commands.size(); first += kMostAtOnce) {
    const jobs::LocalQueue::Making sign{jobs::LocalQueue(batch.root)};
    std::vector<JobPaths> made;
    for (size_t i = first; i < std::min(commands.size(), first + kMostAtOnce); ++i) {
      const std::string number =
          commands.size() == 1 || batch.choice.name.empty() ? "" : "-" + std::to_string(i + 1);
      made.push_back(make_one(batch, commands[i], batch.choice.name + number));
    }
    cluster::submit_jobs(made, {.profile = batch.profile.profile, .runner = runner_program()});
    for (const JobPaths& paths : made) submitted(paths);
  }
}

int run_batch(const Call& call, Console& console) {
  std::optional<jobs::QueueLimits> limits;
  submit_batch(call, [&](const JobPaths& job) {
    console.print("job " + jobs::shown_id(job) + "\n");
    const JobSpec spec = jobs::read_spec(job);
    if (spec.scheduler != "local") return;
    if (!limits) limits = jobs::LocalQueue(job.folder.parent_path()).limits();
    warn_of_size(jobs::shown_id(job), spec, *limits, console);
  });
  return 0;
}

}  // namespace lockstep::cli
