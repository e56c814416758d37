#include <algorithm>
#include <filesystem>
#include <cmath>
#include <sched.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/stop_signals.h"
#include "lockstep/cli/sweep_jobs.h"
#include "lockstep/cli/sweep_table.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/sweep/engine.h"

namespace lockstep::cli {
namespace {

constexpr int64_t kMostSpecBytes = 16 << 20;
constexpr int64_t kRowsAtEnd = 10;

sweep::SweepSpec spec_of_file(const std::string& file) {
  try {
    return sweep::spec_from_json(parse_json(read_file(file, kMostSpecBytes)), quote(file));
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::invalid_option, quote(file) + " is no JSON: " + error.what());
  }
}

// Cores that this process may use.
int64_t usable_cores() {
  cpu_set_t cores;
  return ::sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

// Bytes; 0 if none are given.
int64_t memory_of(const sweep::SweepSpec& spec) {
  if (spec.options.memory.empty()) return 0;
  const auto bytes = parse_bytes(spec.options.memory);
  if (!bytes)
    throw Error(ErrorCode::invalid_option, "--memory cannot be " + quote(spec.options.memory),
                "give a size such as 4G or 500M");
  return *bytes;
}

// Options of a trial that the sweep sets itself.
void check_command(const sweep::SweepSpec& spec) {
  if (spec.command.empty())
    throw Error(ErrorCode::invalid_option, "the sweep has no command",
                "write it after --, as in lockstep sweep --learning-rate 0.001..0.1:log -- train FOLDER");
  (void)memory_of(spec);
  if (spec.options.free && !spec.options.profile.empty())
    throw Error(ErrorCode::invalid_option, "--free cannot be used with --profile",
                "each job decides what is next, and they agree because the search does not depend on time");
  if (!spec.trains()) {
    if (spec.options.trials_as == sweep::TrialsAs::threads)
      throw Error(ErrorCode::invalid_option, "--trials-as threads is only for train",
                  "another program is a process for each trial");
    return;
  }
  for (const std::string& word : spec.command) {
    for (const char* name : {"--output", "--resume", "--pause-after-step", "--workers"}) {
      if (word == name || word.starts_with(std::string(name) + "="))
        throw Error(ErrorCode::invalid_option, "the command of a sweep cannot have " + std::string(name),
                    "the sweep sets it for each trial");
    }
  }
  const std::vector<FieldInfo> fields = train_fields();
  std::vector<std::string> names;
  for (const FieldInfo& field : fields) names.push_back(field.name);
  for (const sweep::Parameter& parameter : spec.space.parameters()) {
    const auto field = std::find_if(fields.begin(), fields.end(), [&](const FieldInfo& one) {
      return one.is_option("--" + parameter.name);
    });
    if (field == fields.end())
      throw Error(ErrorCode::invalid_option, "train has no option --" + parameter.name + " to search",
                  did_you_mean(parameter.name, names));
    for (const std::string& choice : parameter.choices) field->check(choice);
    if (!parameter.is_number()) continue;
    field->check(text_of(parameter, parameter.low));
    field->check(text_of(parameter, parameter.high));
  }
}

// What the command line says: options of the sweep, and what is searched.
sweep::SweepSpec asked_spec(const Call& call) {
  sweep::SweepSpec spec;
  const bool is_file = call.words.size() == 1 && call.words.front().ends_with(".json");
  if (is_file) {
    spec = spec_of_file(call.words.front());
  } else {
    spec.command = call.words;
  }
  take_settings(call, spec.options);
  for (const Setting& one : call.searched) spec.space.add(one.name, one.text);
  if (spec.working_folder.empty()) spec.working_folder = std::filesystem::current_path().string();
  return spec;
}

// The sweep in the folder, with the new values of what may change.
sweep::SweepSpec continued(const sweep::SweepPaths& paths, const Call& call, const sweep::SweepSpec& asked) {
  sweep::SweepSpec spec = sweep::read_spec(paths);
  if (!asked.command.empty()) {
    if (const auto what = sweep::difference(spec, asked))
      throw Error(ErrorCode::invalid_option, quote(paths.folder.string()) + " is another sweep: " + *what,
                  "choose another --output; lockstep sweep --resume --output " + paths.folder.string() +
                      " continues it");
  }
  for (const char* name :
       {"count", "trials", "workers", "trials-as", "memory", "profile", "retries", "keep-weights"}) {
    if (const auto text = call.text_of(name)) set_field(spec.options, name, *text);
  }
  return spec;
}

std::string parameters_text(const sweep::SweepSpec& spec, const sweep::Trial& trial) {
  std::vector<std::string> words;
  for (const auto& [name, value] : spec.space.assignment(trial.point)) words.push_back(name + " " + value);
  return join(words, ", ");
}

// A line for each trial that ends, pauses or is lost.
class Report {
 public:
  Report(const sweep::SweepSpec& spec, Console& console) : spec_(spec), console_(console) {}
  void operator()(const sweep::Trial& trial, const std::string& note) {
    const std::string name = "trial " + std::to_string(trial.number);
    if (!note.empty()) {
      console_.note(name + ": " + note + "; it starts again\n");
      return;
    }
    if (trial.state == sweep::TrialState::running) return;
    std::string line = name + "  " + state_word(trial);
    if (trial.state != sweep::TrialState::failed && !std::isnan(trial.value))
      line += "  " + spec_.metric() + " " + fixed(trial.value, 4);
    if (!trial.error.empty()) line += "  " + first_line(trial.error);
    console_.print(printable(line + "  " + parameters_text(spec_, trial)) + "\n");
  }

 private:
  static std::string state_word(const sweep::Trial& trial) {
    if (trial.state == sweep::TrialState::waiting) return "paused after step " + with_commas(trial.step);
    if (trial.state == sweep::TrialState::early) return "ended early";
    return enum_names(trial.state)[static_cast<size_t>(trial.state)];
  }
  const sweep::SweepSpec& spec_;
  Console& console_;
};

void check_reproducible(const sweep::SweepSpec& spec, Console& console) {
  std::vector<std::string> reasons;
  if (spec.options.free) reasons.emplace_back("--free");
  for (size_t i = 0; i < spec.command.size(); ++i) {
    const std::string& word = spec.command[i];
    if (word == "--max-time" || word.starts_with("--max-time=")) reasons.emplace_back("--max-time");
    const bool is_precision = word == "--precision" && i + 1 < spec.command.size();
    if (word == "--precision=auto" || (is_precision && spec.command[i + 1] == "auto"))
      reasons.emplace_back("--precision auto");
  }
  if (!reasons.empty())
    console.note("lockstep: another sweep may give another table, because of " + join(reasons, " and ") +
                 "\n");
}

}  // namespace

std::vector<FieldInfo> sweep_fields() { return fields_of<sweep::SweepOptions>(); }

int run_sweep(const Call& call, Console& console) {
  sweep::SweepSpec spec = asked_spec(call);
  sweep::SweepPaths paths{spec.options.output};
  if (spec.options.output.empty()) {
    if (spec.options.resume)
      throw Error(ErrorCode::invalid_option, "--resume needs the folder of the sweep",
                  "name it with --output");
    make_folders("sweeps");
    paths.folder = record::default_name("sweep", "sweeps");
    spec.options.output = paths.folder.string();
  }
  std::error_code none;
  const bool exists = std::filesystem::exists(paths.spec(), none);
  if (exists || spec.options.resume) spec = continued(paths, call, spec);
  check_command(spec);
  // Refuses what cannot be searched, before anything is written.
  const sweep::Search search(spec.space, spec.search());
  const int64_t width = search.width();
  if (!exists && std::filesystem::exists(paths.folder, none) &&
      !std::filesystem::is_empty(paths.folder, none))
    throw Error(ErrorCode::invalid_option, quote(paths.folder.string()) + " has other files",
                "choose another --output");
  check_reproducible(spec, console);
  const int64_t jobs = spec.options.profile.empty() ? 0 : jobs_of_sweep(spec);
  if (const int64_t wanted = std::min(search.count(), std::max(jobs, spec.options.trials));
      wanted > width && !spec.options.free)
    console.note("lockstep: at most " + std::to_string(width) + " of the " + std::to_string(wanted) +
                 " trials side by side go on at once (--lag)\n");
  if (jobs > 0) {
    sweep::prepare_shared_sweep(paths, spec);
    console.print("jobs " + join(submit_sweep(paths, spec), ", ") + "\nlockstep sweep watch " +
                  shell_word(paths.folder.string()) + " shows the trials\n");
    return 0;
  }

  StopSignals signals("stopping: trials save what they have\n");
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const sweep::SweepEnd end = sweep::run_sweep(paths, spec,
                                               {.lockstep = program,
                                                .cores = usable_cores(),
                                                .memory = memory_of(spec),
                                                .stop = signals.token(),
                                                .report = Report(spec, console)});
  const sweep::Table table = read_table(paths);
  console.print("\n" +
                sweep_table_text(table, {.limit = kRowsAtEnd, .sort = "result"}, console.table_width()));
  const bool waits = width < search.count();  // else places only lack trials at the end
  if (waits && end.idle_seconds > 0.05 * end.seconds * static_cast<double>(end.side_by_side))
    console.print(as_duration(end.seconds) + " with " + std::to_string(end.side_by_side) +
                  " trials side by side; waiting for earlier results took " +
                  fixed(100 * end.idle_seconds / (end.seconds * static_cast<double>(end.side_by_side)), 0) +
                  " % of it (--lag, --free)\n");
  if (end.moved > 0)
    console.print(std::to_string(end.moved) + (end.moved == 1 ? " trial" : " trials") +
                  " went on with workers of places that had nothing to do\n");
  if (end.peak_memory > 0)
    console.print(as_duration(end.seconds) +
                  "; memory of the process of all trials: " + as_bytes(end.peak_memory) + " at most\n");
  if (const int64_t kept = spec.options.keep_weights;
      spec.trains() && kept > 0 && static_cast<int64_t>(table.rows.size()) > kept)
    console.print("the best " + std::to_string(kept) + " trials keep their weights (--keep-weights)\n");
  if (!end.is_complete) {
    console.note("the sweep is not complete; to continue:\n  lockstep sweep --resume --output " +
                 shell_word(paths.folder.string()) + "\n");
    return signals.signal() != 0 ? kSignalStatus + signals.signal() : 0;
  }
  if (table.best() != nullptr)
    console.print("best: trial " + std::to_string(table.best()->trial) + "; lockstep sweep best " +
                  shell_word(paths.folder.string()) + " shows the command that trains it again\n");
  return table.best() != nullptr ? 0 : 1;
}

}  // namespace lockstep::cli
