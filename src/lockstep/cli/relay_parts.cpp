#include "lockstep/cli/relay_parts.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/build_text.h"
#include "lockstep/cluster/profile.h"
#include "lockstep/cluster/ssh.h"
#include "lockstep/jobs/job_list.h"
#include "lockstep/launch/process.h"

namespace lockstep::cli {
namespace {

using cluster::NamedProfile;

constexpr std::chrono::seconds kRelayLimit{600};
constexpr int64_t kMostFileBytes = int64_t{2} << 30;

std::string whole_message(RelayMessage message, const std::vector<std::string>& files) {
  std::string bytes;
  for (const std::string& file : files) {
    const std::string content = read_file(file, kMostFileBytes);
    message.files.push_back(std::filesystem::path(file).filename().string());
    message.sizes.push_back(static_cast<int64_t>(content.size()));
    bytes += content;
  }
  message.build = build_text();
  return to_json(message).dump() + "\n" + bytes;
}

// The words of a command that writes to this program's terminal, if it has one.
std::vector<std::string> ssh_with_output(const NamedProfile& found, const std::vector<std::string>& words,
                                         const Console& console) {
  std::vector<std::string> command = program_there(found, words);
  if (console.is_terminal())
    command.insert(command.begin(), {"env", "COLUMNS=" + std::to_string(console.width())});
  return cluster::ssh_words({.login = found.profile.login,
                             .words = command,
                             .host_key = found.profile.host_key,
                             .on_terminal = console.is_terminal()});
}

}  // namespace

std::optional<RelayedJob> relayed_job(const std::string& word) {
  const size_t sign = word.find(':');
  if (sign == std::string::npos || sign == 0) return std::nullopt;
  const NamedProfile found = cluster::Profiles::of_user().find(word.substr(0, sign));
  if (found.profile.login.empty())
    throw Error(ErrorCode::invalid_option, "the profile " + quote(found.name) + " has no login node",
                "name it alone: " + word.substr(sign + 1));
  return RelayedJob{found, word.substr(sign + 1)};
}

std::vector<std::string> program_there(const NamedProfile& found, const std::vector<std::string>& words) {
  // Jobs are called there as they are called here.
  std::vector<std::string> command{"env", std::string(jobs::kShownAs) + "=" + found.name + ":"};
  if (!found.profile.job_folder.empty()) command.push_back("LOCKSTEP_JOBS=" + found.profile.job_folder);
  command.push_back(found.profile.program);
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

bool put_secret(const std::string& name, RelayMessage& message) {
  const char* value = std::getenv(name.c_str());
  if (value != nullptr) message.secrets.push_back(name + "=" + value);
  return value != nullptr;
}

// Jobs name it later, so its name tells its content.
void put_profile(const NamedProfile& found, RelayMessage& message) {
  message.profile = found.profile;
  message.profile.login.clear();
  message.profile.host_key.clear();
  message.name = found.name + jobs::kVia +
                 as_hex(hash_of(std::string_view(to_json(message.profile).dump()))).substr(0, 8);
  for (const std::string& name : found.profile.secrets) {
    if (!put_secret(name, message))
      throw Error(
          ErrorCode::invalid_option,
          "the secret " + name + " of the profile " + quote(found.name) + " is not in the environment",
          "export " + name + "=...");
  }
}

cluster::CommandEnd send(const NamedProfile& found, const RelayMessage& message,
                         const std::vector<std::string>& files,
                         const std::function<void(std::string_view)>& show) {
  return ask_there(found, {"relay"},
                   {.input = whole_message(message, files), .limit = kRelayLimit, .show = show});
}

cluster::CommandEnd ask_there(const NamedProfile& found, const std::vector<std::string>& words,
                              const cluster::CommandRun& how) {
  const cluster::CommandEnd end =
      cluster::run_command(cluster::ssh_words({.login = found.profile.login,
                                               .words = program_there(found, words),
                                               .host_key = found.profile.host_key}),
                           how);
  if (end.status == cluster::kSshFailed) cluster::throw_ssh_error(found.profile.login, end.errors);
  if (end.out_of_time)
    throw Error(ErrorCode::timeout,
                found.profile.login + " did not answer within " + std::to_string(how.limit.count()) + " s",
                "try it by hand: ssh " + found.profile.login);
  if (end.status == 127)
    throw Error(ErrorCode::cluster, found.profile.login + " has no program " + quote(found.profile.program),
                "install Lockstep there, and set \"program\" in the profile to its path");
  return end;
}

// Only files below the folder are taken from the archive.
TakenArchive take_archive(const std::vector<std::string>& words, int input,
                          const std::filesystem::path& folder) {
  make_folders(folder);
  launch::Pipe pipe = launch::make_pipe();
  Descriptor reading(::dup(pipe.reading.get()));
  ::fcntl(reading.get(), F_SETFL, 0);
  const pid_t sender = launch::start_process(
      {.program = words.front(), .words = words, .input = input, .output = pipe.writing.get()});
  const pid_t taker =
      launch::start_process({.program = "tar",
                             .words = {"tar", "-C", folder.string(), "--no-same-owner",
                                       "--no-same-permissions", "--warning=no-timestamp", "-xf", "-"},
                             .input = reading.get()});
  pipe = {};
  reading = {};
  const int sent = launch::exit_status(launch::wait_for_end(sender).status.value_or(0));
  return {sent, launch::wait_for_end(taker).status.value_or(0) == 0};
}

TakenArchive take_archive_there(const NamedProfile& found, const std::vector<std::string>& words, int input,
                                const std::filesystem::path& folder) {
  const TakenArchive taken = take_archive(
      cluster::ssh_words({.login = found.profile.login, .words = words, .host_key = found.profile.host_key}),
      input, folder);
  if (taken.sent == cluster::kSshFailed) cluster::throw_ssh_error(found.profile.login, "");
  return taken;
}

std::optional<int> run_there(const NamedProfile& found, const std::vector<std::string>& words,
                             const launch::StopSignals& signals, Console& console) {
  const pid_t process =
      launch::start_process({.program = "ssh", .words = ssh_with_output(found, words, console)});
  const auto end = launch::wait_for_end(process, signals.token());
  if (!end) {
    ::kill(process, SIGTERM);
    launch::wait_for_end(process);
    return std::nullopt;
  }
  const int code = launch::exit_status(end->status.value_or(0));
  if (code == cluster::kSshFailed) cluster::throw_ssh_error(found.profile.login, "");
  return code;
}

}  // namespace lockstep::cli
