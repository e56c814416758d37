#include "lockstep/sweep/sweep_folder.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/regular_file.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/base/text.h"
#include "lockstep/jobs/job_lock.h"
#include "lockstep/sweep/fetched_sweep.h"
#include "lockstep/sweep/shown_sweep.h"
#include "lockstep/sweep/sweep_log.h"
#include "lockstep/sweep/table_reader.h"

namespace lockstep::sweep {
namespace {

constexpr const char* kReasons = "not_reproducible";

std::string four_digits(int64_t number) {
  std::string text = std::to_string(number);
  return text.size() < 4 ? std::string(4 - text.size(), '0') + text : text;
}

// JSON holds no other texts, and a trial that is begun again must have the same command.
void check_texts(const SweepSpec& spec) {
  const auto check = [](const std::string& text, const std::string& what) {
    if (!is_utf8(text))
      throw Error(ErrorCode::invalid_option,
                  "a sweep cannot keep " + what + " " + quote(text) + ", whose bytes are not UTF-8",
                  "rename the file or folder");
  };
  for (const std::string& word : spec.command) check(word, "the word");
  check(spec.working_folder, "the working folder");
  check(spec.options.metric, "the metric");
  for (const Parameter& parameter : spec.space.parameters()) {
    check(parameter.name, "the parameter");
    for (const std::string& choice : parameter.choices) check(choice, "the choice");
  }
}

}  // namespace

std::filesystem::path SweepPaths::trial(int64_t number) const {
  return folder / "trials" / four_digits(number);
}

std::filesystem::path SweepPaths::output(int64_t number) const {
  return folder / "trials" / (four_digits(number) + ".out");
}

std::filesystem::path SweepPaths::parameters(int64_t number) const {
  return folder / "trials" / (four_digits(number) + ".parameters.json");
}

bool SweepSpec::on_threads() const {
  if (options.trials_as != TrialsAs::auto_) return options.trials_as == TrialsAs::threads;
  // Instruction sets are chosen once for a process.
  const std::vector<Parameter>& all = space.parameters();
  return trains() &&
         std::none_of(all.begin(), all.end(), [](const Parameter& one) { return one.name == "isa"; });
}

std::string SweepSpec::metric() const {
  if (!options.metric.empty()) return options.metric;
  return trains() ? "best_accuracy" : "result";
}

bool SweepSpec::maximizes() const {
  if (options.goal != Goal::auto_) return options.goal == Goal::maximize;
  const std::string name = lower(metric());
  return name.find("loss") == std::string::npos && name.find("error") == std::string::npos;
}

SearchOptions SweepSpec::search() const {
  const bool is_grid = options.search == SearchKind::grid;
  return {.sampler = {.kind = options.search,
                      .seed = static_cast<uint64_t>(options.seed),
                      .grid_steps = options.grid_steps},
          .count = options.count == 0 && !is_grid ? kUsualTrials : options.count,
          .lag = options.lag,
          .maximize = maximizes(),
          .stop = options.stop_rule,
          .first_rung = options.first_rung,
          .reduction = options.reduction,
          .free = options.free};
}

namespace {

std::vector<std::string> texts_of(const Json& list, const std::string& what, const std::string& hint) {
  const bool are_texts = list.is_array() && std::all_of(list.begin(), list.end(),
                                                        [](const Json& one) { return one.is_string(); });
  if (!are_texts) throw Error(ErrorCode::invalid_option, what, hint);
  return list.get<std::vector<std::string>>();
}

void check_known(const Json& options, const std::string& where) {
  std::vector<std::string> names{"command", "parameters", "working_folder", kReasons};
  std::vector<std::string> known = names;
  for (const FieldInfo& field : fields_of<SweepOptions>()) {
    names.push_back(field.name);
    known.insert(known.end(), {field.name, field.alias()});
  }
  for (const auto& [key, value] : options.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string meant = did_you_mean(key, names);
    throw Error(ErrorCode::invalid_option,
                where + " has " + quote(key) + ", which no sweep of this version has",
                meant.empty() ? "leave it out, or use the version of Lockstep that wrote it" : meant);
  }
}

}  // namespace

SweepSpec spec_from_json(const Json& json, const std::string& where) {
  if (!json.is_object() || !json.contains("command") || !json.contains("parameters"))
    throw Error(ErrorCode::invalid_option, where + " is no sweep: it needs a command and parameters",
                R"({"command": ["train", "FOLDER"], "parameters": {"learning-rate": "0.001..0.1:log"}})");
  SweepSpec spec;
  Json options = Json::object();
  for (const auto& [key, value] : json.items()) {
    if (key == "command") {
      spec.command = texts_of(value, where + ": the command is no list of words",
                              R"(write "command": ["train", "FOLDER", "--max-epochs", "2"])");
    } else if (key == "parameters") {
      spec.space = with_context([&] { return "while reading " + where; },
                                [&, &parameters = value] { return Space::from_json(parameters); });
    } else if (key == "working_folder") {
      if (!value.is_string())
        throw Error(ErrorCode::invalid_option, where + ": the working folder is no text",
                    R"(write "working_folder": "/home/me/project")");
      spec.working_folder = value.get<std::string>();
    } else if (key == kReasons) {
      spec.not_reproducible = texts_of(value, where + ": " + quote(kReasons) + " is no list of texts",
                                       R"(write "not_reproducible": [])");
    } else {
      options[key] = value;
    }
  }
  if (spec.command.empty())
    throw Error(ErrorCode::invalid_option, where + ": the command is no list of words",
                R"(write "command": ["train", "FOLDER", "--max-epochs", "2"])");
  check_known(options, where);
  read_json(options, spec.options, where);
  if (!json.contains(kReasons) && spec.options.free) spec.not_reproducible.emplace_back("--free");
  return spec;
}

std::string not_reproducible_text(const SweepSpec& spec) {
  if (spec.not_reproducible.empty()) return "";
  return printable("another sweep may give another table, because of " +
                   join(spec.not_reproducible, " and "));
}

namespace {

// For "search/trials/0003" and "search/sweep.json" it is search.
std::optional<SweepPaths> sweep_around(const std::filesystem::path& folder) {
  constexpr int kMostLevels = 3;
  std::error_code none;
  std::filesystem::path above = folder;
  for (int level = 0; level < kMostLevels && above.has_relative_path(); ++level) {
    above = above.parent_path();
    if (std::filesystem::exists(SweepPaths{above}.spec(), none))
      return SweepPaths{above.empty() ? std::filesystem::path(".") : above};
  }
  return std::nullopt;
}

[[noreturn]] void refuse_folder(const SweepPaths& paths) {
  std::error_code none;
  const std::string reason = std::filesystem::is_directory(paths.folder, none) ? "it has no sweep.json"
                             : std::filesystem::exists(paths.folder, none)     ? "it is a file"
                                                                               : "it is not there";
  const auto around = sweep_around(paths.folder);
  throw Error(ErrorCode::not_found, quote(paths.folder.string()) + " is not the folder of a sweep: " + reason,
              around ? "the sweep is " + shown_sweep(*around)
                     : "lockstep sweep writes into the folder of its --output, or into sweeps/sweep-001, "
                       "sweep-002, ...");
}

}  // namespace

SweepSpec read_spec(const SweepPaths& paths) {
  std::error_code code;
  const bool is_there = std::filesystem::exists(paths.spec(), code);
  if (code == std::errc::permission_denied) throw errno_error(EACCES, "open", paths.folder.string());
  if (!is_there) refuse_folder(paths);
  try {
    return spec_from_json(parse_json(read_regular_file(paths.spec(), kMostSpecBytes)),
                          quote(paths.spec().string()));
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::corrupt_data, quote(paths.spec().string()) + " is damaged: " + error.what(),
                "restore it; trials that have trained are run folders in " +
                    quote((paths.folder / "trials").string()));
  }
}

void write_spec(const SweepPaths& paths, const SweepSpec& spec) {
  check_texts(spec);
  Json json = lockstep::to_json(spec.options);
  json["command"] = spec.command;
  json["working_folder"] = spec.working_folder;
  json["parameters"] = spec.space.to_json();
  json[kReasons] = spec.not_reproducible;
  write_file_atomic(paths.spec(), json.dump(2) + "\n");
}

namespace {

// With the metric and the goal that the sweep has where none is named.
Json resolved_options(const SweepSpec& spec) {
  Json json = lockstep::to_json(spec.options);
  json["metric"] = spec.metric();
  json["goal"] = spec.maximizes() ? "maximize" : "minimize";
  return json;
}

}  // namespace

std::optional<std::string> difference(const SweepSpec& had, const SweepSpec& asked) {
  if (had.command != asked.command) return "its command is " + join(had.command, " ");
  if (had.space.to_json() != asked.space.to_json()) return "it searches other parameters";
  const Json of_had = resolved_options(had), of_asked = resolved_options(asked);
  for (const char* name : {"search", "seed", "grid-steps", "metric", "goal", "stop-rule", "first-rung",
                           "reduction", "lag", "free"}) {
    if (of_had[name] != of_asked[name]) return "its --" + std::string(name) + " is " + of_had[name].dump();
  }
  return std::nullopt;
}

bool is_shared_now(const SweepPaths& paths) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(paths.runners(), none)) {
    if (jobs::is_held(entry.path())) return true;
  }
  return false;
}

bool is_worked_on(const SweepPaths& paths) { return jobs::is_held(paths.lock()) || is_shared_now(paths); }

std::string state_of(const Row& row) { return enum_names(row.state)[static_cast<size_t>(row.state)]; }

std::string result_text(double value) {
  constexpr double kSmall = 0.01, kLarge = 1e5;  // less says too little in four decimals, more too much
  if (value == 0 || (std::abs(value) >= kSmall && std::abs(value) < kLarge)) return fixed(value, 4);
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

std::string text_of(const Row& row, const std::string& parameter) {
  for (const auto& [name, value] : row.parameters) {
    if (name == parameter) return value;
  }
  return "";
}

bool Table::can_end(int64_t trial) const {
  return std::any_of(rows.begin(), rows.end(), [&](const Row& row) {
    return row.trial == trial && (row.state == TrialState::running ||
                                  (row.state == TrialState::waiting && (row.value || row.is_cut_short)));
  });
}

RowRank rank_of(const Row& row, bool maximize) {
  const double value = row.value.value_or(kAbsent);
  if (const auto rank = rank_of_result(row.state, value, maximize)) return {0, *rank};
  if (std::isnan(value)) return {2, {}};
  return {1, {false, maximize ? -value : value}};
}

const Row* Table::best() const {
  const bool maximize = spec.maximizes();
  const auto best = std::min_element(rows.begin(), rows.end(), [&](const Row& a, const Row& b) {
    return rank_of(a, maximize) < rank_of(b, maximize);
  });
  return best != rows.end() && rank_of(*best, maximize).first == 0 ? &*best : nullptr;
}

Table read_table(const SweepPaths& paths) { return TableReader(paths).read(); }

Json json_of(const Row& row, const Space& space) {
  Json json{{"trial", row.trial}, {"state", state_of(row)}};
  json["result"] = row.value ? Json(*row.value) : Json();
  json["steps"] = row.step;
  json["total_steps"] = row.total_steps;
  json["seconds"] = row.seconds;
  if (!row.weights_hash.empty()) json["weights_hash"] = row.weights_hash;
  if (!row.error.empty()) json["error"] = row.error;
  if (!row.note.empty()) json["note"] = row.note;
  json["parameters"] = space.json_of(row.parameters);
  return json;
}

void check_is_trial(const SweepPaths& paths, int64_t trial) { row_of(read_table(paths), paths, trial); }

const Row& row_of(const Table& table, const SweepPaths& paths, int64_t trial) {
  const auto found =
      std::find_if(table.rows.begin(), table.rows.end(), [&](const Row& row) { return row.trial == trial; });
  if (found != table.rows.end()) return *found;
  const std::string first = std::to_string(table.rows.empty() ? 0 : table.rows.front().trial);
  const std::string last = std::to_string(table.rows.empty() ? 0 : table.rows.back().trial);
  throw Error(ErrorCode::not_found,
              "the sweep " + quote(paths.folder.string()) + " has no trial " + std::to_string(trial) + ": " +
                  (table.rows.empty() ? "none has begun"
                   : first == last    ? "only trial " + first + " has begun"
                                      : "it has trials " + first + " to " + last),
              "lockstep sweep show " + shown_sweep(paths) + " lists them");
}

void annotate(const SweepPaths& paths, int64_t trial, const std::string& text) {
  check_is_no_copy(paths, "annotate SWEEP " + std::to_string(trial) + " " + shell_word(text));
  check_is_trial(paths, trial);
  write_note(paths, {.trial = trial, .text = text});
}

}  // namespace lockstep::sweep
