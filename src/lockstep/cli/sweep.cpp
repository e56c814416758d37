#include <algorithm>
#include <filesystem>
#include <cmath>
#include <sched.h>

#include "lockstep/base/counted.h"
#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/cli/sweep_checks.h"
#include "lockstep/cli/sweep_inputs.h"
#include "lockstep/cli/sweep_jobs.h"
#include "lockstep/cli/sweep_status.h"
#include "lockstep/cli/sweep_table.h"
#include "lockstep/cli/unfinished_sweep.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/jobs/job_list.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/sweep/engine.h"
#include "lockstep/sweep/fetched_sweep.h"
#include "lockstep/sweep/shown_sweep.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNumberedSweeps = "sweeps";

// Cores that this process may use.
int64_t usable_cores() {
  cpu_set_t cores;
  return ::sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

struct AskedSweep {
  sweep::SweepSpec spec{};
  std::vector<std::string> given{};       // options of the sweep that the command line or the file names
  std::vector<std::string> as_options{};  // what is searched and written like an option of the sweep
};

AskedSweep sweep_of_file(const std::string& file) {
  try {
    const Json json = parse_json(read_file(file, sweep::kMostSpecBytes), KeyTwice::refused);
    AskedSweep asked{.spec = sweep::spec_from_json(json, quote(file))};
    asked.spec.not_reproducible.clear();  // of another sweep, whose sweep.json it may be
    for (const FieldInfo& field : sweep_fields()) {
      if (json.contains(field.name) || json.contains(field.alias())) asked.given.push_back(field.name);
    }
    return asked;
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::invalid_option, "cannot read the sweep " + quote(file) + ": " + error.what());
  }
}

void set_options(const AskedSweep& asked, const std::vector<std::string>& names, sweep::SweepSpec& spec) {
  for (const std::string& name : names) set_field(spec.options, name, field_text(asked.spec.options, name));
}

bool has_given(const AskedSweep& asked, const std::string& name) {
  return std::ranges::find(asked.given, name) != asked.given.end();
}

bool has_few_points(const sweep::Space& space) {
  const auto points = points_of(space);
  return space.size() > 0 && points && *points <= sweep::kUsualTrials;
}

// A space of few points is searched whole, unless the user says how or how long.
void search_few_points_once(AskedSweep& asked) {
  if (!has_few_points(asked.spec.space)) return;
  for (const char* name : {"search", "count", "grid-steps"}) {
    if (has_given(asked, name)) return;
  }
  asked.spec.options.search = sweep::SearchKind::grid;
  asked.spec.options.grid_steps = sweep::kUsualTrials;  // all whole numbers of a range
}

// What the command line says, or the file that it names: options of the sweep, and what is searched.
AskedSweep asked_sweep(const Call& call) {
  AskedSweep asked;
  if (call.words.size() == 1 && call.words.front().ends_with(".json")) {
    asked = sweep_of_file(call.words.front());
  } else {
    asked.spec.command = call.words;
  }
  for (const std::string& name : take_settings(call, asked.spec.options)) asked.given.push_back(name);
  for (const Setting& one : call.searched) {
    asked.spec.space.add(one.name, one.text);
    if (one.as_option) asked.as_options.push_back(one.name);
  }
  search_few_points_once(asked);
  fs::path folder = (fs::current_path() / asked.spec.working_folder).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // without the slash at the end
  asked.spec.working_folder = folder.string();
  return asked;
}

// The sweep in the folder, with the new values of what may change.
sweep::SweepSpec continued(const sweep::SweepPaths& paths, const AskedSweep& asked) {
  sweep::check_is_no_copy(paths, "--resume --output SWEEP");
  sweep::SweepSpec spec = sweep::read_spec(paths);
  sweep::SweepSpec wanted = asked.spec;
  if (asked.spec.command.empty()) {  // the search is that of the folder, but for what was given
    wanted = spec;
    if (asked.spec.space.size() > 0) wanted.space = asked.spec.space;
    set_options(asked, asked.given, wanted);
  } else if (has_few_points(wanted.space) && !has_given(asked, "search")) {
    wanted.options.search = spec.options.search;
    if (!has_given(asked, "grid-steps")) wanted.options.grid_steps = spec.options.grid_steps;
  }
  if (const auto what = sweep::difference(spec, wanted))
    throw Error(
        ErrorCode::invalid_option, quote(paths.folder.string()) + " is another sweep: " + *what,
        "choose another --output; lockstep sweep --resume --output " + shown_sweep(paths) + " continues it");
  std::vector<std::string> changed;
  for (const char* name :
       {"count", "trials", "workers", "trials-as", "memory", "profile", "retries", "keep-weights"}) {
    if (has_given(asked, name)) changed.push_back(name);
  }
  const sweep::SweepOptions had = spec.options;
  set_options(asked, changed, spec);
  if (spec.options.memory != had.memory) check_memory(spec);
  if (spec.options.workers != had.workers && depends_on_workers(spec))
    throw Error(ErrorCode::invalid_option,
                quote(paths.folder.string()) + " is another sweep: its --workers is " +
                    std::to_string(had.workers) + ", on which the weights of its trials depend",
                "choose another --output, or leave --workers out");
  return spec;
}

// Others than those of a sweep that was killed before it had its sweep.json, or that begins at the same time.
bool has_other_files(const sweep::SweepPaths& paths) {
  std::error_code none;
  bool found = false;
  for (const auto& entry : fs::directory_iterator(paths.folder, none)) {
    const std::string name = entry.path().filename().string();
    found = found || (name != paths.lock().filename() && name != paths.jobs_lock().filename() &&
                      !name.starts_with(paths.spec().filename().string()));
  }
  return found && !fs::exists(paths.spec(), none);
}

// Another sweep that begins at the same time takes another one.
fs::path make_numbered_folder() {
  const fs::path parent = kNumberedSweeps;
  make_folders(parent);
  while (true) {
    fs::path folder = record::default_name("sweep", parent);
    std::error_code code;
    if (fs::create_directory(folder, code)) return folder;
    if (code) throw errno_error(code.value(), "create folder", folder.string());
  }
}

// The words of the command may name files from where the sweep was begun. Jobs begin there by themselves.
void enter_working_folder(const sweep::SweepSpec& spec, sweep::SweepPaths& paths) {
  std::error_code code;
  if (spec.working_folder.empty() || fs::equivalent(spec.working_folder, ".", code)) return;
  paths.folder = fs::absolute(paths.folder).lexically_normal();
  fs::current_path(spec.working_folder, code);
  if (code) throw errno_error(code.value(), "enter", spec.working_folder);
}

std::string parameters_text(const sweep::SweepSpec& spec, const sweep::Trial& trial) {
  std::vector<std::string> words;
  for (const auto& [name, value] : spec.space.assignment(trial.point))
    words.push_back(name + " " + short_number(value));
  return join(words, ", ");
}

// A line for each trial that ends, pauses or is lost.
class Report {
 public:
  Report(const sweep::SweepSpec& spec, SweepStatus& status) : spec_(spec), status_(status) {}
  void operator()(const sweep::Trial& trial, const std::string& note) {
    status_.take(trial);
    const std::string name = "trial " + std::to_string(trial.number);
    if (!note.empty()) {
      status_.note(name + ": " + note + "; it starts again\n");
      return;
    }
    if (trial.state == sweep::TrialState::running) return;
    std::string line = name + "  " + state_word(trial);
    if (trial.state != sweep::TrialState::failed && !std::isnan(trial.value))
      line += "  " + spec_.metric() + " " + sweep::result_text(trial.value);
    if (!trial.error.empty()) line += "  " + first_line(trial.error);
    status_.print(printable(line + "  " + parameters_text(spec_, trial)) + "\n");
  }

 private:
  static std::string state_word(const sweep::Trial& trial) {
    if (trial.state == sweep::TrialState::waiting) return "paused after step " + with_commas(trial.step);
    if (trial.state == sweep::TrialState::early) return "ended early";
    return enum_names(trial.state)[static_cast<size_t>(trial.state)];
  }
  const sweep::SweepSpec& spec_;
  SweepStatus& status_;
};

// The trials that an earlier program has begun, for the terminal.
sweep::Table known_trials(const sweep::SweepPaths& paths, const sweep::SweepSpec& spec) {
  sweep::Table table{.spec = spec};
  std::error_code none;
  if (fs::exists(paths.spec(), none)) table.rows = sweep::read_table(paths).rows;
  return table;
}

// What was meant may be to go on. But the program or the data may have changed since, so that must be said.
void say_what_can_go_on(const sweep::SweepSpec& spec, Console& console) {
  const auto paths = unfinished_sweep(kNumberedSweeps, spec);
  if (!paths) return;
  const std::string shown = shown_sweep(*paths);
  console.note("lockstep: " + shown +
               " is the same sweep and not complete; this one begins anew. To continue " + shown +
               ":\n  lockstep sweep --resume --output " + shown + "\n");
}

void warn_of_repeats(const sweep::SweepSpec& spec, int64_t count, Console& console) {
  const auto points = points_of(spec.space);
  if (!points || *points >= count || spec.options.search == sweep::SearchKind::grid) return;
  console.note("lockstep: the space has " + counted(*points, "point") +
               ", so trials repeat; --search grid tries each once\n");
}

// What was a reason stays one: trials may have ended with it.
void mark_if_not_reproducible(sweep::SweepSpec& spec, Console& console) {
  std::vector<std::string>& known = spec.not_reproducible;
  for (const std::string& reason : reasons_for_another_table(spec)) {
    if (std::find(known.begin(), known.end(), reason) == known.end()) known.push_back(reason);
  }
  if (!spec.not_reproducible.empty()) console.note("lockstep: " + not_reproducible_text(spec) + "\n");
}

void say_what_is_kept(const sweep::SweepSpec& spec, int64_t count, Console& console) {
  const int64_t kept = spec.options.keep_weights;
  if (!spec.trains() || kept == 0 || count <= kept) return;
  console.note("lockstep: only the best " +
               (kept == 1 ? "trial keeps its" : std::to_string(kept) + " trials keep their") +
               " weights (--keep-weights)" +
               (spec.options.stop_rule == sweep::StopRule::asha
                    ? "; a trial that is paused at a rung keeps its checkpoint until the search ends it"
                    : "") +
               "\n");
}

void say_what_is_searched(const AskedSweep& asked, const sweep::SweepSpec& spec, int64_t count, bool exists,
                          Console& console) {
  warn_of_repeats(spec, count, console);
  if (!exists && spec.options.search == sweep::SearchKind::grid && !has_given(asked, "search"))
    console.note("lockstep: each of the " + counted(count, "point") + " of the space is tried once\n");
  if (exists && has_given(asked, "count") && asked.spec.options.count > count)
    console.note("lockstep: the grid has only " + counted(count, "point") + "\n");
}

sweep::SweepEnd run_here(const sweep::SweepPaths& paths, const sweep::SweepSpec& spec,
                         sweep::EngineOptions options, Console& console) {
  SweepStatus status(known_trials(paths, spec), console);
  options.cores = usable_cores();
  options.memory = memory_of(spec);
  options.moves_workers = may_move_workers(spec);
  options.report = Report(spec, status);
  options.note = [&](const std::string& note) { status.note("lockstep: " + note + "\n"); };
  return sweep::run_sweep(paths, spec, options);
}

// Returns the exit status.
int print_end(const sweep::SweepEnd& end, const sweep::SweepPaths& paths, const std::string& shown,
              const launch::StopSignals& signals, Console& console) {
  const sweep::Table table = read_table(paths);
  console.print("\n" + best_rows_text(table, paths.folder.string(), console.table_width()));
  console.print(waiting_text(end));
  if (end.moved > 0)
    console.print(counted(end.moved, "trial") + " went on with workers of places that had nothing to do\n");
  if (end.peak_memory > 0)
    console.print(as_duration(end.seconds) +
                  "; memory of the process of all trials: " + as_bytes(end.peak_memory) + " at most\n");
  if (!end.is_complete) {
    console.note("the sweep is not complete; to continue:\n  lockstep sweep --resume --output " + shown +
                 "\n");
    return signals.signal() != 0 ? launch::kSignalStatus + signals.signal() : 0;
  }
  if (table.best() != nullptr)
    console.print("best: trial " + std::to_string(table.best()->trial) + "; lockstep sweep best " + shown +
                  " shows the command that trains it again\n");
  return table.best() != nullptr ? 0 : 1;
}

}  // namespace

std::vector<FieldInfo> sweep_fields() { return fields_of<sweep::SweepOptions>(); }

int run_sweep(const Call& call, Console& console) {
  const AskedSweep asked = asked_sweep(call);
  sweep::SweepSpec spec = asked.spec;
  sweep::SweepPaths paths{spec.options.output};
  const bool is_named = !spec.options.output.empty();
  if (!is_named && spec.options.resume)
    throw Error(ErrorCode::invalid_option, "--resume needs the folder of the sweep", "name it with --output");
  const std::string found = is_named ? sweep::spec_text(paths) : "";
  std::error_code none;
  const bool exists = is_named && fs::exists(paths.spec(), none);
  if (exists || spec.options.resume) spec = continued(paths, asked);
  check_sweep(spec);
  if (!exists) check_new_sweep(spec, asked.as_options);
  // Refuses what cannot be searched, before anything is written.
  const sweep::Search search(spec.space, spec.search());
  const int64_t width = search.width();
  if (is_named && !exists && has_other_files(paths))
    throw Error(ErrorCode::invalid_option, quote(paths.folder.string()) + " has other files",
                "choose another --output");
  mark_if_not_reproducible(spec, console);
  say_what_is_searched(asked, spec, search.count(), exists, console);
  const int64_t jobs = spec.options.profile.empty() ? 0 : jobs_of_sweep(spec);
  const std::string program = fs::read_symlink("/proc/self/exe").string();
  if (are_trials_here(spec) && !(exists && is_complete(known_trials(paths, spec), search.count())))
    check_inputs(spec, program, /*is_new=*/!exists);
  if (const int64_t wanted = std::min(search.count(), std::max(jobs, spec.options.trials));
      wanted > width && !spec.options.free)
    console.note("lockstep: at most " + std::to_string(width) + " of the " + std::to_string(wanted) +
                 " trials side by side go on at once (--lag)\n");
  if (!is_named) {
    say_what_can_go_on(spec, console);
    paths.folder = make_numbered_folder();
    spec.options.output = paths.folder.string();
  }
  const std::string cluster = environment_variable(jobs::kShownAs);  // "far:" through a login node
  const std::string shown = shown_sweep(paths);
  if (jobs > 0) {
    const auto lock = sweep::prepare_shared_sweep(paths, spec, found);
    console.print("jobs " + cluster + join(submit_sweep(paths, spec), ", " + cluster) +
                  "\nlockstep sweep watch " + shown + " shows the trials\n");
    say_what_is_kept(spec, search.count(), console);
    return 0;
  }
  if (!is_named) console.note("lockstep: the sweep is in " + shown + "\n");
  say_what_is_kept(spec, search.count(), console);
  enter_working_folder(spec, paths);

  // On a terminal it takes the place of the line that is drawn there.
  launch::StopSignals signals((console.can_redraw() && console.note_is_terminal() ? "\r\033[K" : "") +
                              std::string("stopping: trials save what they have\n"));
  const sweep::SweepEnd end =
      run_here(paths, spec, {.lockstep = program, .found = found, .stop = signals.token()}, console);
  return print_end(end, paths, shown, signals, console);
}

}  // namespace lockstep::cli
