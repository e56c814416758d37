#include "lockstep/sweep/internal/trial_process.h"

#include <fcntl.h>
#include <optional>

#include "lockstep/base/file.h"
#include "lockstep/base/json.h"
#include "lockstep/launch/process.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/sweep/engine.h"
#include "lockstep/sweep/internal/trial_remains.h"

namespace lockstep::sweep {
namespace {

namespace fs = std::filesystem;

std::string replaced(std::string word, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = word.find(from, at)) != std::string::npos; at += to.size())
    word.replace(at, from.size(), to);
  return word;
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

// By the words of train or by the file of its --config.
bool is_given(const SweepSpec& spec, const std::vector<std::string>& words, const std::string& option) {
  if (value_in(words, "--" + option)) return true;
  const auto config = value_in(words, "--config");
  if (!config) return false;
  constexpr int64_t kMostConfigBytes = 1 << 20;
  try {
    return parse_json(read_file(fs::path(spec.working_folder) / *config, kMostConfigBytes)).contains(option);
  } catch (const std::exception&) {  // train says what is wrong with the file
    return false;
  }
}

// Where the words of a program name a file with the trial's parameters.
constexpr const char* kParametersPlace = "{parameters}";

fs::path parameters_file(const SweepPaths& paths, int64_t trial) {
  return fs::absolute(paths.trial(trial) / "parameters.json");
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

void make_place_of_program(const SweepPaths& paths, int64_t trial, const Assignment& parameters) {
  const fs::path folder = paths.trial(trial);
  if (fs::exists(folder)) kill_remains(variable_of_trial(fs::absolute(folder).string()));
  fs::remove_all(folder);
  fs::remove(paths.output(trial));
  make_folders(folder);
  Json json = Json::object();
  for (const auto& [name, value] : parameters) json[name] = value;
  write_file_atomic(parameters_file(paths, trial), json.dump(2) + "\n");
}

}  // namespace

std::vector<std::string> prepare_trial(const SweepPaths& paths, const SweepSpec& spec,
                                       const TrialStart& trial) {
  const int64_t number = trial.segment.trial;
  make_folders(paths.trial(number).parent_path());
  std::vector<std::string> words = command_of(paths, spec, number, trial.parameters);
  if (spec.trains()) {
    add_training_words(paths, trial, words);
  } else {
    make_place_of_program(paths, number, trial.parameters);
  }
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
  std::vector<std::string> words = spec.command;
  bool has_places = spec.trains();
  for (const std::string& word : words)
    has_places = has_places || word.find(kParametersPlace) != std::string::npos;
  for (const auto& [name, value] : parameters) {
    const std::string place = "{" + name + "}";
    bool found = false;
    for (std::string& word : words) {
      if (spec.trains() || word.find(place) == std::string::npos) continue;
      word = replaced(word, place, value);
      found = true;
    }
    if (found || (has_places && !spec.trains())) continue;
    // A switch of train takes no second word.
    if (spec.trains() && (value == "true" || value == "false")) {
      words.push_back("--" + name + "=" + value);
    } else {
      words.push_back("--" + name);
      words.push_back(value);
    }
  }
  if (!spec.trains()) {
    const std::string file = parameters_file(paths, trial).string();
    for (std::string& word : words) word = replaced(word, kParametersPlace, file);
  } else if (spec.options.stop_rule != StopRule::none && !is_given(spec, words, "validate-every")) {
    words.emplace_back("--validate-every");
    words.push_back(std::to_string(spec.options.first_rung));
  }
  return words;
}

}  // namespace lockstep::sweep
