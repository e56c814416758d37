#include "lockstep/cli/relay.h"

#include <cerrno>
#include <chrono>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/relay_message.h"
#include "lockstep/cli/relay_parts.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/cluster/command.h"
#include "lockstep/cluster/profile.h"
#include "lockstep/cluster/ssh.h"
#include "lockstep/jobs/job_list.h"
#include "lockstep/launch/process.h"

namespace lockstep::cli {
namespace {

// ssh ends its own lines with "\r\n".
std::string first_words(const std::string& errors) {
  std::string line = first_line(errors);
  if (line.ends_with('\r')) line.pop_back();
  return printable(line);
}

namespace fs = std::filesystem;
using cluster::NamedProfile;
using cluster::Profiles;

bool is_job_verb(const Verb& verb) { return verb.name.starts_with("job "); }

// The lines "job 12" become "job ours:12".
std::string with_profile_name(const std::string& text, const std::string& name) {
  std::string written;
  for (const std::string& line : split(text, '\n')) {
    const bool is_job = line.starts_with("job ") && parse_number<int64_t>(line.substr(4));
    written += (written.empty() ? "" : "\n") + (is_job ? "job " + name + ":" + line.substr(4) : line);
  }
  return written;
}

// "far:3,far:4" as the jobs are called there.
std::string without_profile(const std::string& jobs, const std::string& name) {
  std::vector<std::string> there;
  for (const std::string& job : split(jobs, ','))
    there.push_back(job.starts_with(name + ":") ? job.substr(name.size() + 1) : job);
  return join(there, ",");
}

cluster::CommandEnd send_batch(const NamedProfile& found, const Call& call) {
  RelayMessage message;
  put_profile(found, message);
  message.words = {"batch", "--profile", message.name};
  std::vector<std::string> files;
  for (const Setting& setting : call.settings) {
    if (setting.name == "profile") continue;
    std::string text = setting.text;
    if (setting.name == "secrets") {
      for (const std::string& name : split(text, ',')) put_secret(name, message);
    }
    if (setting.name == "after") text = without_profile(text, found.name);
    if (setting.name == "ship" || setting.name == "commands") {
      const std::vector<std::string> names = setting.name == "ship" ? split(text, ',') : std::vector{text};
      text.clear();
      for (const std::string& name : names) {
        text += (text.empty() ? "" : ",") + std::string(kRelayedPlace) + std::to_string(files.size()) + "/" +
                fs::path(name).filename().string();
        files.push_back(name);
      }
    }
    message.words.push_back("--" + setting.name + "=" + text);
  }
  if (!call.words.empty()) message.words.emplace_back("--");
  for (const std::string& word : call.words) {
    const auto relayed = split(word, ':').front() == found.name ? relayed_job(word) : std::nullopt;
    message.words.push_back(relayed ? relayed->job : word);
  }
  return send(found, message, files);
}

int relay_batch(const NamedProfile& found, const Call& call, Console& console) {
  const cluster::CommandEnd end = send_batch(found, call);
  console.note(end.errors);
  console.print(with_profile_name(end.output, found.name));
  return end.status;
}

int relay_profile(const NamedProfile& found, const Verb& verb, const Call& call, Console& console) {
  RelayMessage message;
  put_profile(found, message);
  message.words = split(verb.name, ' ');
  message.words.push_back(message.name);
  for (const Setting& setting : call.settings)
    message.words.push_back("--" + setting.name + "=" + setting.text);
  const cluster::CommandEnd end =
      send(found, message, {}, [&](std::string_view text) { console.print(std::string(text)); });
  console.note(end.errors);
  return end.status;
}

int fetch(const RelayedJob& relayed, const Call& call, Console& console) {
  const fs::path target = call.words.size() > 1 ? fs::path(call.words[1]) : fs::path("job-" + relayed.job);
  std::vector<std::string> options;
  for (const Setting& setting : call.settings) options.push_back("--" + setting.name + "=" + setting.text);
  if (!fetch_there(relayed, target, options)) return 1;
  console.print("files of job " + relayed.name() + ": " + target.string() + "\n");
  return 0;
}

int relay_job(const Verb& verb, const Call& call, Console& console) {
  const RelayedJob first = *relayed_job(call.words.front());
  if (verb.name == "job fetch") return fetch(first, call, console);
  std::vector<std::string> words = split(verb.name, ' ');
  for (const Setting& setting : call.settings) words.push_back("--" + setting.name + "=" + setting.text);
  for (const std::string& word : call.words) {
    const auto relayed = relayed_job(word);
    if (!relayed || relayed->profile.name != first.profile.name)
      throw Error(ErrorCode::invalid_option, "the jobs are of different clusters",
                  "name those of one at a time");
    words.push_back(relayed->job);
  }
  const bool attaches = verb.name == "job attach";
  const launch::StopSignals signals(
      attaches ? "detached; the job goes on: lockstep job attach " + first.name() : std::string());
  const auto status = run_there(first.profile, words, signals, console);
  if (status) return *status;
  return attaches && signals.signal() == SIGINT ? 0 : launch::kSignalStatus + signals.signal();
}

bool is_for_login_node(const Verb& verb) {
  return verb.name == "cluster show" || verb.name == "cluster validate" || verb.name == "cluster wait";
}

}  // namespace

std::optional<int> relay(const Verb& verb, const Call& call, Console& console) {
  if (is_job_verb(verb)) {
    const bool names_cluster = !call.words.empty() && call.words.front().find(':') != std::string::npos &&
                               call.words.front().find('/') == std::string::npos;
    return names_cluster ? std::optional(relay_job(verb, call, console)) : std::nullopt;
  }
  if (verb.name == "sweep" || verb.name == "report" || verb.name.starts_with("sweep "))
    return relay_sweep(verb, call, console);
  if (verb.name != "batch" && !is_for_login_node(verb)) return std::nullopt;
  const std::string name = verb.name == "batch" ? call.text_of("profile").value_or("")
                           : call.words.empty() ? ""
                                                : call.words.front();
  const NamedProfile found = Profiles::of_user().find(name);
  if (found.profile.login.empty()) return std::nullopt;
  return verb.name == "batch" ? relay_batch(found, call, console) : relay_profile(found, verb, call, console);
}

RelayedJob submit_there(const NamedProfile& found, const Call& batch) {
  const cluster::CommandEnd end = send_batch(found, batch);
  const std::string kJob = "job " + found.name + ":";
  for (const std::string& line : split(with_profile_name(end.output, found.name), '\n')) {
    if (end.status == 0 && line.starts_with(kJob)) return {found, line.substr(kJob.size())};
  }
  throw Error(ErrorCode::cluster, found.profile.login + " did not take the job: " + first_words(end.errors),
              "lockstep cluster validate " + found.name + " tries the profile");
}

std::optional<int> attach_there(const RelayedJob& job, bool plot, const std::string& notice,
                                Console& console) {
  std::vector<std::string> words{"job", "attach", job.job};
  if (plot) words.emplace_back("--plot");
  const launch::StopSignals signals(notice);
  return run_there(job.profile, words, signals, console);
}

bool fetch_there(const RelayedJob& relayed, const fs::path& target, const std::vector<std::string>& options) {
  std::string script =
      "set -e; d=$(mktemp -d); trap 'rm -rf \"$d\"' EXIT; \"$@\" job fetch \"$0\" \"$d/files\" >/dev/null";
  for (const std::string& option : options) script += " " + shell_word(option);
  script += "; tar -C \"$d/files\" -cf - .";
  std::vector<std::string> words{"/bin/sh", "-c", script, relayed.job};
  for (std::string& word : program_there(relayed.profile, {})) words.push_back(std::move(word));
  const TakenArchive taken = take_archive_there(relayed.profile, words, launch::kNull, target);
  return taken.sent == 0 && taken.is_unpacked;
}

std::vector<RelayedJobs> relayed_jobs(const std::vector<std::string>& options, Console& console,
                                      const std::stop_token& stop) {
  std::vector<RelayedJobs> lists;
  for (const NamedProfile& found : Profiles::of_user().list()) {
    if (!found.damage.empty()) console.note("warning: " + printable(found.damage) + "\n");
    if (found.profile.login.empty()) continue;
    // A login node with the same home has this profile, too.
    std::vector<std::string> words = program_there(found, {"jobs", "--here"});
    words.insert(words.begin() + 1, "COLUMNS=" + std::to_string(console.table_width()));
    words.insert(words.end(), options.begin(), options.end());
    cluster::CommandEnd end;
    try {
      end = cluster::run_command(
          cluster::ssh_words(
              {.login = found.profile.login, .words = words, .host_key = found.profile.host_key}),
          {.limit = std::chrono::seconds(30), .stop = stop});
    } catch (const Error& error) {
      if (error.code() != ErrorCode::cancelled) throw;
      break;
    }
    if (end.status == 0) {
      lists.push_back({found, end.output});
    } else {
      console.note(
          "warning: the jobs of " + found.name + " are not shown: " +
          (end.out_of_time ? found.profile.login + " did not answer within 30 s" : first_words(end.errors)) +
          "\n");
    }
  }
  return lists;
}

}  // namespace lockstep::cli
