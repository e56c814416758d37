// Sweeps of a cluster that is reached through its login node: their folders and jobs are there.
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/relay_parts.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using cluster::NamedProfile;

// The path in "ours:search", as it is there. Nothing for a folder of this machine, and for a URL.
std::optional<RelayedJob> sweep_there(const std::string& word) {
  const size_t sign = word.find(':');
  std::error_code none;
  if (sign == std::string::npos || word.find('/') < sign || word.compare(sign, 3, "://") == 0 ||
      fs::exists(word, none))
    return std::nullopt;
  return relayed_job(word);
}

std::string output_there(const NamedProfile& found, const std::string& output) {
  const auto sweep = sweep_there(output);
  if (sweep && sweep->profile.name != found.name)
    throw Error(ErrorCode::invalid_option,
                "--output " + output + " is not of the profile " + quote(found.name) + " (--profile)",
                "--output " + found.name + ":" + sweep->job);
  return sweep ? sweep->job : output;
}

int begin_there(const NamedProfile& found, const Call& call, Console& console) {
  RelayMessage message;
  put_profile(found, message);
  message.words = {"sweep", "--profile=" + message.name};
  for (const Setting& one : call.settings) {
    if (one.name == "profile") continue;
    message.words.push_back("--" + one.name + "=" +
                            (one.name == "output" ? output_there(found, one.text) : one.text));
  }
  for (const Setting& one : call.searched)
    message.words.push_back((one.as_option ? "--" : "--param=") + one.name + "=" + one.text);
  std::vector<std::string> files;
  if (call.words.size() == 1 && call.words.front().ends_with(".json")) {
    files = call.words;
    message.words.push_back(kRelayedPlace + ("0/" + fs::path(files.front()).filename().string()));
  } else if (!call.words.empty()) {
    message.words.emplace_back("--");
    message.words.insert(message.words.end(), call.words.begin(), call.words.end());
  }
  const cluster::CommandEnd end = send(found, message, files);
  console.note(end.errors);
  console.print(end.output);
  return end.status;
}

}  // namespace

std::optional<int> relay_sweep(const Verb& verb, const Call& call, Console& console) {
  if (verb.name == "sweep") {
    const std::string name = call.text_of("profile").value_or("");
    if (name.empty()) return std::nullopt;
    const NamedProfile found = cluster::Profiles::of_user().find(name);
    return found.profile.login.empty() ? std::nullopt : std::optional(begin_there(found, call, console));
  }
  const auto sweep = call.words.empty() ? std::nullopt : sweep_there(call.words.front());
  if (!sweep) return std::nullopt;
  std::vector<std::string> words = split(verb.name, ' ');
  for (const Setting& one : call.settings) words.push_back("--" + one.name + "=" + one.text);
  words.push_back(sweep->job);
  words.insert(words.end(), call.words.begin() + 1, call.words.end());
  const launch::StopSignals signals("");
  const auto status = run_there(sweep->profile, words, signals, console);
  return status ? *status : launch::kSignalStatus + signals.signal();
}

}  // namespace lockstep::cli
