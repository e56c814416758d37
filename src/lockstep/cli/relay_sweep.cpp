// Sweeps of a cluster that is reached through its login node: their folders and jobs are there.
#include <algorithm>
#include <csignal>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/relay_parts.h"
#include "lockstep/cli/sweep_fetch.h"
#include "lockstep/jobs/job_list.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using cluster::NamedProfile;

// What is before the colon in "ours:search"; empty for other paths, and for a URL.
std::string name_in(const std::string& word) {
  const size_t sign = word.find(':');
  const bool is_other =
      sign == std::string::npos || word.find('/') < sign || word.compare(sign, 3, "://") == 0;
  return is_other ? "" : word.substr(0, sign);
}

bool is_profile(const std::string& name) {
  if (name.empty()) return false;
  const std::vector<NamedProfile> all = cluster::Profiles::of_user().list();
  return std::any_of(all.begin(), all.end(), [&](const NamedProfile& one) { return one.name == name; });
}

// The path in "ours:search", as it is there. Nothing for a folder of this machine.
std::optional<RelayedJob> sweep_there(const std::string& word) {
  std::error_code none;
  return name_in(word).empty() || fs::exists(word, none) ? std::nullopt : relayed_job(word);
}

bool names_file(const Call& call) { return call.words.size() == 1 && call.words.front().ends_with(".json"); }

// An option of the call, or what its FILE.json says.
struct Given {
  std::string name;
  std::string text;
  std::string file{};  // empty: the command line
  std::string with(const std::string& other) const {
    return file.empty() ? "--" + name + " " + shell_word(other) : quote(name) + ": " + quote(other);
  }
  std::string words() const { return with(text) + (file.empty() ? "" : " in " + quote(file)); }
};

// That the file is damaged says the command itself.
std::optional<Given> given_in_file(const Call& call, const std::string& name) {
  constexpr int64_t kMostBytes = 16 << 20;
  if (!names_file(call)) return std::nullopt;
  const std::string& file = call.words.front();
  try {
    const Json json = parse_json(read_file(file, kMostBytes));
    if (json.contains(name)) return Given{name, json.at(name).get<std::string>(), file};
  } catch (const Json::exception&) {
  }
  return std::nullopt;
}

std::optional<Given> output_of(const Call& call) {
  const auto typed = call.text_of("output");
  return typed ? Given{"output", *typed} : given_in_file(call, "output");
}

[[noreturn]] void refuse_output(const NamedProfile& found, const Given& output) {
  const std::string name = name_in(output.text), path = output.text.substr(name.size() + 1);
  const bool has_login = !found.profile.login.empty();
  throw Error(
      ErrorCode::invalid_option,
      output.words() + (name == found.name ? ": the profile " + quote(name) + " has no login node"
                                           : " is not of the profile " + quote(found.name) + " (--profile)"),
      output.with(has_login ? found.name + ":" + path : path));
}

// A path there, whatever this machine has by this name.
std::string output_there(const NamedProfile& found, const Given& output) {
  const std::string name = name_in(output.text);
  if (name == found.name) return output.text.substr(name.size() + 1);
  if (is_profile(name)) refuse_output(found, output);
  return output.text;
}

// The output names the cluster.
void check_profile_of_file(const Call& call, const NamedProfile& found, const Given& output) {
  if (call.text_of("profile")) return;
  const auto profile = given_in_file(call, "profile");
  if (profile && !profile->text.empty() && jobs::shown_profile(profile->text) != found.name)
    throw Error(ErrorCode::invalid_option,
                profile->words() + " is not the profile of " + output.with(output.text),
                "leave \"profile\" out of the file, or add --profile " + shell_word(found.name));
}

// By --profile, or by its output. Nothing for a sweep of this machine, whose folder may have a colon in its
// name.
std::optional<NamedProfile> place_of_new(const Call& call) {
  const auto output = output_of(call);
  const bool names_profile = output && is_profile(name_in(output->text));
  if (const std::string name = call.text_of("profile").value_or(""); !name.empty()) {
    const NamedProfile found = cluster::Profiles::of_user().find(name);
    if (!found.profile.login.empty()) return found;
    std::error_code none;
    if (names_profile && !fs::exists(output->text, none)) refuse_output(found, *output);
    return std::nullopt;
  }
  const auto sweep = names_profile ? sweep_there(output->text) : std::nullopt;
  if (!sweep) return std::nullopt;
  check_profile_of_file(call, sweep->profile, *output);
  return sweep->profile;
}

int begin_there(const NamedProfile& found, const Call& call, Console& console) {
  RelayMessage message;
  put_profile(found, message);
  message.words = {"sweep", "--profile=" + message.name};
  for (const Setting& one : call.settings) {
    if (one.name != "profile" && one.name != "output")
      message.words.push_back("--" + one.name + "=" + one.text);
  }
  if (const auto output = output_of(call))
    message.words.push_back("--output=" + output_there(found, *output));
  for (const Setting& one : call.searched)
    message.words.push_back((one.as_option ? "--" : "--param=") + one.name + "=" + one.text);
  std::vector<std::string> files;
  if (names_file(call)) {
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

// What it writes to standard output comes here; a file would be one of the cluster.
void check_writes_here(const Call& call) {
  for (const Setting& one : call.settings) {
    if (one.text == "-") continue;
    throw Error(ErrorCode::invalid_option,
                "--" + one.name + " " + quote(one.text) + " would be a file of the cluster",
                "lockstep sweep export " + shell_word(call.words.front()) + " --" + one.name + " - > " +
                    shell_word(one.text));
  }
}

}  // namespace

std::optional<int> relay_sweep(const Verb& verb, const Call& call, Console& console) {
  if (verb.name == "sweep") {
    const auto found = place_of_new(call);
    return found ? std::optional(begin_there(*found, call, console)) : std::nullopt;
  }
  const auto sweep = call.words.empty() ? std::nullopt : sweep_there(call.words.front());
  if (!sweep) return std::nullopt;
  if (verb.name == "sweep fetch") return fetch_sweep(sweep, call, console);
  if (verb.name == "sweep export") check_writes_here(call);
  std::vector<std::string> words = split(verb.name, ' ');
  for (const Setting& one : call.settings) words.push_back("--" + one.name + "=" + one.text);
  words.emplace_back("--");
  words.push_back(sweep->job);
  words.insert(words.end(), call.words.begin() + 1, call.words.end());
  const launch::StopSignals signals("");
  const auto status = run_there(sweep->profile, words, signals, console);
  if (status) return *status;
  return verb.name == "sweep watch" && signals.signal() == SIGINT ? 0
                                                                  : launch::kSignalStatus + signals.signal();
}

}  // namespace lockstep::cli
