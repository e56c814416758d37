// What the relays of jobs and of sweeps share.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/cli/relay.h"
#include "lockstep/cli/relay_message.h"
#include "lockstep/cluster/command.h"
#include "lockstep/launch/stop_signals.h"

namespace lockstep::cli {

/// "ours:12" of a profile with a login node; nothing for a word of another form. Throws not_found for an
/// unknown profile, invalid_option for one without a login node.
std::optional<RelayedJob> relayed_job(const std::string& word);

/// The words of a command of the program there, with the profile's folder of jobs.
std::vector<std::string> program_there(const cluster::NamedProfile& found,
                                       const std::vector<std::string>& words);

/// Puts a variable of the environment into the message, of a profile or a command; whether it is here.
bool put_secret(const std::string& name, RelayMessage& message);

/// Puts the profile into the message as it is there, with its secrets.
void put_profile(const cluster::NamedProfile& found, RelayMessage& message);

/// Runs the message's command there. show: gets what is printed there as it comes. Throws cluster and
/// timeout.
cluster::CommandEnd send(const cluster::NamedProfile& found, const RelayMessage& message,
                         const std::vector<std::string>& files,
                         const std::function<void(std::string_view)>& show = {});

/// Runs words of the program there to their end. Throws cluster, and timeout at the limit.
cluster::CommandEnd ask_there(const cluster::NamedProfile& found, const std::vector<std::string>& words,
                              const cluster::CommandRun& how);

/// How a command that writes an archive ended, and whether all of it was unpacked.
struct TakenArchive {
  int sent = 0;
  bool is_unpacked = false;
};

/// Runs a command, and unpacks the archive that it writes below the folder, which is made. What failed has
/// said why.
///   input  a descriptor that the command reads, or launch::kNull
TakenArchive take_archive(const std::vector<std::string>& words, int input,
                          const std::filesystem::path& folder);
/// The same with a command there, which need not be one of the program. Throws cluster.
TakenArchive take_archive_there(const cluster::NamedProfile& found, const std::vector<std::string>& words,
                                int input, const std::filesystem::path& folder);

/// Runs words of the program there, whose output comes here; its exit status. A signal ends the command
/// there; then nothing.
std::optional<int> run_there(const cluster::NamedProfile& found, const std::vector<std::string>& words,
                             const launch::StopSignals& signals, Console& console);

/// `sweep` with a profile that has a login node or with an output such as "ours:search", by its options or
/// its FILE.json, and commands on a sweep such as "ours:search". As relay().
std::optional<int> relay_sweep(const Verb& verb, const Call& call, Console& console);

}  // namespace lockstep::cli
