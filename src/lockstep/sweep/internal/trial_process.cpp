#include "lockstep/sweep/internal/trial_process.h"

#include <algorithm>
#include <fcntl.h>
#include <optional>
#include <set>

#include "lockstep/base/file.h"
#include "lockstep/base/json.h"
#include "lockstep/launch/process.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/sweep/engine.h"
#include "lockstep/sweep/internal/trial_remains.h"

namespace lockstep::sweep {
namespace {

namespace fs = std::filesystem;

// The word with values in its places, {NAME}. Adds the names to `used`. The braces of a value are no place.
std::string filled(const std::string& word, const Assignment& values, std::set<std::string>& used) {
  std::string text;
  for (size_t at = 0; at < word.size();) {
    const auto value = std::find_if(values.begin(), values.end(), [&](const auto& one) {
      return word.compare(at, one.first.size() + 2, "{" + one.first + "}") == 0;
    });
    if (value == values.end()) {
      text += word[at++];
    } else {
      text += value->second;
      at += value->first.size() + 2;
      used.insert(value->first);
    }
  }
  return text;
}

// The last value of an option in the words of train; nothing if it is not there.
std::optional<std::string> value_in(const std::vector<std::string>& words, const std::string& option) {
  std::optional<std::string> value;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with(option + "=")) value = words[i].substr(option.size() + 1);
    if (words[i] == option) value = i + 1 < words.size() ? words[i + 1] : "";
  }
  return value;
}

// Whether the file of --config names it.
bool is_in_config(const SweepSpec& spec, const std::vector<std::string>& words, const std::string& option) {
  const auto config = value_in(words, "--config");
  if (!config) return false;
  constexpr int64_t kMostConfigBytes = 1 << 20;
  try {
    return parse_json(read_file(fs::path(spec.working_folder) / *config, kMostConfigBytes)).contains(option);
  } catch (const std::exception&) {  // train says what is wrong with the file
    return false;
  }
}

// In the words of sweeps of earlier versions an empty place means none, which train refuses.
void leave_out_empty_places(const SweepSpec& spec, std::vector<std::string>& words) {
  for (const std::string option : {"config", "test", "validation", "weights"}) {
    const std::string word = "--" + option;
    if (value_in(words, word) != "" || is_in_config(spec, words, option)) continue;
    for (size_t i = 0; i < words.size();) {
      const auto at = words.begin() + static_cast<std::ptrdiff_t>(i);
      if (words[i] == word) {
        words.erase(at, at + std::min<std::ptrdiff_t>(2, words.end() - at));
      } else if (words[i].starts_with(word + "=")) {
        words.erase(at);
      } else {
        ++i;
      }
    }
  }
}

// {parameters} in the words of a program is a file with the trial's parameters.
constexpr const char* kParametersPlace = "parameters";

// In sweeps of earlier versions it was in the trial's folder.
fs::path parameters_file(const SweepPaths& paths, int64_t trial) {
  const fs::path file = paths.parameters(trial), earlier = paths.trial(trial) / "parameters.json";
  return fs::absolute(!fs::exists(file) && fs::exists(earlier) ? earlier : file);
}

std::vector<std::string> program_command(const SweepPaths& paths, const SweepSpec& spec, int64_t trial,
                                         const Assignment& parameters) {
  Assignment values = parameters;
  values.emplace_back(kParametersPlace, parameters_file(paths, trial).string());
  std::set<std::string> used;
  std::vector<std::string> words;
  for (const std::string& word : spec.command) words.push_back(filled(word, values, used));
  if (used.contains(kParametersPlace)) return words;
  for (const auto& [name, value] : parameters) {
    if (used.contains(name)) continue;
    words.push_back("--" + name);
    words.push_back(value);
  }
  return words;
}

std::vector<std::string> training_command(const SweepSpec& spec, const Assignment& parameters) {
  std::vector<std::string> words = spec.command;
  for (const auto& [name, value] : parameters) {
    // A switch of train takes no second word.
    if (value == "true" || value == "false") {
      words.push_back("--" + name + "=" + value);
    } else {
      words.push_back("--" + name);
      words.push_back(value);
    }
  }
  leave_out_empty_places(spec, words);
  if (spec.options.stop_rule != StopRule::none && !value_in(words, "--validate-every") &&
      !is_in_config(spec, words, "validate-every")) {
    words.emplace_back("--validate-every");
    words.push_back(std::to_string(spec.options.first_rung));
  }
  return words;
}

void add_training_words(const SweepPaths& paths, const TrialStart& trial, std::vector<std::string>& words) {
  const Segment& segment = trial.segment;
  const fs::path folder = paths.trial(segment.trial);
  words.insert(words.begin(), "lockstep");
  for (const std::string& word :
       {std::string("--workers"), std::to_string(trial.workers), std::string("--output"), folder.string()})
    words.push_back(word);
  if (segment.until > 0) {
    words.emplace_back("--pause-after-step");
    words.push_back(std::to_string(segment.until));
  }
  if (fs::exists(record::RunPaths{folder}.options())) {
    words.emplace_back("--resume");
  } else {
    fs::remove_all(folder);  // killed before it had begun
  }
}

void make_place_of_program(const SweepPaths& paths, int64_t trial, const Json& parameters) {
  const fs::path folder = paths.trial(trial);
  if (fs::exists(folder)) kill_remains(variable_of_trial(fs::absolute(folder).string()));
  fs::remove_all(folder);
  fs::remove(paths.output(trial));
  make_folders(folder);
  write_file_atomic(paths.parameters(trial), parameters.dump(2) + "\n");
}

}  // namespace

std::vector<std::string> prepare_trial(const SweepPaths& paths, const SweepSpec& spec,
                                       const TrialStart& trial) {
  const int64_t number = trial.segment.trial;
  make_folders(paths.trial(number).parent_path());
  if (!spec.trains()) make_place_of_program(paths, number, spec.space.json_of(trial.parameters));
  std::vector<std::string> words = command_of(paths, spec, number, trial.parameters);
  if (spec.trains()) add_training_words(paths, trial, words);
  return words;
}

pid_t start_trial(const SweepPaths& paths, const SweepSpec& spec, const TrialStart& trial) {
  const int64_t number = trial.segment.trial;
  const std::vector<std::string> words = prepare_trial(paths, spec, trial);
  const OpenFile output(paths.output(number), O_WRONLY | O_CREAT | O_APPEND);
  return launch::start_process(
      {.program = spec.trains() ? trial.lockstep : words.front(),
       .words = words,
       .environment = {"LOCKSTEP_TRIAL=" + std::to_string(number),
                       variable_of_trial(fs::absolute(paths.trial(number)).string())},
       .output = output.get(),
       .errors = output.get()});
}

std::vector<std::string> command_of(const SweepPaths& paths, const SweepSpec& spec, int64_t trial,
                                    const Assignment& parameters) {
  return spec.trains() ? training_command(spec, parameters) : program_command(paths, spec, trial, parameters);
}

}  // namespace lockstep::sweep
