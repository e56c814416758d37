#include "lockstep/cli/train_on_cluster.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sys/wait.h>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/random_hex.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/asked_options.h"
#include "lockstep/cli/batch.h"
#include "lockstep/cli/job_output.h"
#include "lockstep/cli/job_places.h"
#include "lockstep/cli/relay.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/cluster/profile.h"
#include "lockstep/cluster/slurm_step.h"
#include "lockstep/io/byte_store.h"
#include "lockstep/launch/launcher.h"
#include "lockstep/launch/process.h"
#include "lockstep/record/run_folder.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

// With the options of --config, whose file a job need not see.
std::vector<std::string> words_of(const Call& call, const AskedOptions& asked,
                                  const std::vector<std::string>& without) {
  const std::vector<std::string> ours = field_names<train::Options>();
  const auto is_in = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  std::vector<std::string> words{"train", call.words.front()};
  std::vector<std::string> done = without;
  const auto add = [&](const std::string& name, const std::string& text) {
    if (is_in(done, name)) return;
    words.push_back("--" + name + "=" + text);
    done.push_back(name);
  };
  for (const std::string& name : asked.given) {
    const std::string text = field_text(asked.options, name);
    // An empty one takes back what --config says, and the job reads no such file.
    if (!text.empty() || !field_text(train::Options{}, name).empty()) add(name, text);
  }
  for (const Setting& setting : call.settings) {
    if (setting.name != "config" && !is_in(ours, setting.name)) add(setting.name, setting.text);
  }
  return words;
}

// The folder of the run, on this machine. An empty one is made where the user named none, so that another
// command does not take the same; one that the user named is refused here if the job would refuse it.
class RunPlace {
 public:
  RunPlace(const Call& call, const train::Options& options) {
    if (!options.output.empty()) {
      if (!options.resume) record::RunFolder::create(options.output);
      folder_ = fs::absolute(options.output).lexically_normal();
      return;
    }
    if (options.resume)
      throw Error(ErrorCode::invalid_option, "--resume needs the folder of the run to continue",
                  "add --output RUN");
    const std::string name = io::short_name(call.words.front());
    while (!is_new_) {
      folder_ = fs::absolute(record::default_name(name.empty() ? "run" : name));
      make_folders(folder_.parent_path());
      std::error_code code;
      is_new_ = fs::create_directory(folder_, code);
      if (code) throw errno_error(code.value(), "make", folder_.string());
    }
  }
  RunPlace(const RunPlace&) = delete;
  RunPlace& operator=(const RunPlace&) = delete;
  ~RunPlace() {
    std::error_code none;
    if (is_new_) fs::remove(folder_, none);  // if it is empty
  }

  const fs::path& folder() const { return folder_; }
  /// Somebody else writes to it from now on.
  void keep() { is_new_ = false; }

 private:
  fs::path folder_;
  bool is_new_ = false;
};

Call batch_of(const cluster::NamedProfile& profile, std::vector<std::string> words) {
  Call batch;
  batch.words = std::move(words);
  batch.settings = {{"profile", profile.name}};
  return batch;
}

std::string notice_of(const std::string& job, const std::string& more) {
  return "detached; the job goes on: lockstep job attach " + job + more;
}

void say_submitted(const std::string& job, const cluster::NamedProfile& profile, const fs::path& run,
                   Console& console) {
  console.note(printable("job " + job + " of the profile " + quote(profile.name) + " trains; run folder " +
                         run.string()) +
               "\n");
}

void say_how_to_see_why(const std::string& job, Console& console) {
  console.note("  hint: lockstep job diary " + job + " shows what it has written\n");
}

// All machines see the disk of this one.
int train_as_job(const cluster::NamedProfile& profile, const Call& call, const AskedOptions& asked,
                 Console& console) {
  RunPlace place(call, asked.options);
  std::vector<std::string> words = words_of(call, asked, {"output"});
  words.push_back("--output=" + place.folder().string());
  jobs::JobPaths job;
  submit_batch(batch_of(profile, words), [&](const jobs::JobPaths& made) { job = made; });
  place.keep();
  say_submitted(job.id(), profile, place.folder(), console);
  const Attached end =
      attach_to_run(job, {.plot = asked.options.plot, .notice = notice_of(job.id(), "")}, console);
  if (!end.over) return launch::kSignalStatus + end.signal;
  if (end.over->state == jobs::JobState::ended) return 0;
  say_how_to_see_why(job.id(), console);
  return 1;
}

// The run is in the folder of the job there, and comes here at its end.
int train_there(const cluster::NamedProfile& profile, const Call& call, const AskedOptions& asked,
                Console& console) {
  if (asked.options.resume)
    throw Error(
        ErrorCode::invalid_option,
        "a run on " + profile.profile.login + " cannot be resumed from here: its checkpoints are there",
        "lockstep job requeue " + profile.name + ":JOB continues it; lockstep jobs lists the jobs");
  RunPlace place(call, asked.options);
  const RelayedJob job = submit_there(profile, batch_of(profile, words_of(call, asked, {"output"})));
  say_submitted(job.name(), profile, place.folder(), console);
  const std::string fetch = "lockstep job fetch " + job.name() + " " + shell_word(place.folder().string());
  const auto status = with_context(
      [&] { return "job " + job.name() + " goes on: lockstep job attach " + job.name(); },
      [&] {
        return attach_there(job, asked.options.plot,
                            notice_of(job.name(), "\nfor its run, when it is over: " + fetch), console);
      });
  if (!status) return launch::kSignalStatus + SIGINT;
  if (*status != 0) {
    say_how_to_see_why(job.name(), console);
    return *status;
  }
  const fs::path hidden =
      place.folder().parent_path() / ("." + place.folder().filename().string() + "." + random_hex(4));
  if (!fetch_there(job, hidden))
    throw Error(ErrorCode::io, "the run of job " + job.name() + " did not come here", fetch);
  rename_path(hidden / "run", place.folder());
  place.keep();
  std::error_code none;
  fs::remove_all(hidden, none);
  console.print("run folder " + printable(place.folder().string()) + "\n");
  return 0;
}

int train_in_step(const cluster::Profile& own, const Call& call, const AskedOptions& asked) {
  const std::string name = "lockstep-" + random_hex(4);
  std::vector<std::string> words = cluster::step_words(own, name);
  words.push_back(runner_program().front());
  for (std::string& word : words_of(call, asked, {})) words.push_back(std::move(word));
  launch::StopSignals signals("");  // rank 0 says what it does
  const pid_t process = launch::start_process({.program = "srun",
                                               .words = words,
                                               .environment = {"LOCKSTEP_SECRET=" + random_hex(32),
                                                               // Else srun would kill ranks that still save.
                                                               "LOCKSTEP_STOPPED_STATUS=0"}});
  auto end = launch::wait_for_end(process, signals.token());
  if (!end) {
    cluster::end_step(name);
    end = launch::wait_for_end(process);
  }
  if (signals.signal() != 0) return launch::kSignalStatus + signals.signal();
  return launch::exit_status(end->status.value_or(0));
}

// A step of an allocation has what srun gave it, also if it has one task and so is no group of ranks.
bool is_part_of_other_work() {
  const auto variable = [](const char* name) { return std::getenv(name); };
  return !environment_variable("LOCKSTEP_JOB").empty() || !environment_variable("LOCKSTEP_TRIAL").empty() ||
         launch::is_in_slurm_step(variable) || launch::read_launch(variable);
}

}  // namespace

std::optional<int> train_on_cluster(const Verb& verb, const Call& call, Console& console) {
  if (verb.name != "train") return std::nullopt;
  const AskedOptions asked = asked_options(call);
  if (asked.options.execution != train::Execution::parallel || is_part_of_other_work()) return std::nullopt;
  if (const auto own = cluster::own_allocation())
    return cluster::ranks_of(*own) > 1 ? std::optional(train_in_step(*own, call, asked)) : std::nullopt;
  const cluster::NamedProfile profile = cluster::Profiles::of_user().find("");
  if (!profile.profile.login.empty()) return train_there(profile, call, asked, console);
  if (profile.profile.scheduler == "local") return std::nullopt;
  return train_as_job(profile, call, asked, console);
}

}  // namespace lockstep::cli
