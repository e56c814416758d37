#include "lockstep/sweep/sweep_folder.h"

#include <algorithm>
#include <cmath>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/regular_file.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/base/text.h"
#include "lockstep/jobs/job_lock.h"
#include "lockstep/record/known_part.h"
#include "lockstep/record/state.h"
#include "lockstep/record/status_file.h"

namespace lockstep::sweep {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 30;  // a line for each event of a trial
constexpr int64_t kMostSpec = int64_t{16} << 20;

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

// The lines that have an end.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    if (end == std::string_view::npos) break;
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

struct Note {
  int64_t trial = 0;
  std::string text{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("trial", self.trial, "");
    field("text", self.text, "");
  };
};

void check_trial(int64_t trial) {
  if (trial < 0) throw Error(ErrorCode::corrupt_data, "there is no trial " + std::to_string(trial));
}

void check(const Note& note) { check_trial(note.trial); }

// What no segment ends with; a search that is told of it does not end.
void check(const LogLine& line) {
  check_trial(line.trial);
  if (line.value && !std::isfinite(*line.value))
    throw Error(ErrorCode::corrupt_data, "its value is not a number");
  if (line.until < 0)
    throw Error(ErrorCode::corrupt_data, std::to_string(line.until) + " is no number of steps");
  if (line.kind != LogKind::outcome || !line.state) return;
  const std::string state = enum_names(*line.state)[static_cast<size_t>(*line.state)];
  if (*line.state == TrialState::running || *line.state == TrialState::early)
    throw Error(ErrorCode::corrupt_data, "the state " + quote(state) + " is no outcome");
  if (*line.state == TrialState::waiting && line.until <= 0)
    throw Error(ErrorCode::corrupt_data, "the outcome " + quote(state) +
                                             " needs the steps until which the trial was trained, not " +
                                             std::to_string(line.until));
}

// The first line of the text has the number `before` + 1 in the file.
template <Described T>
std::vector<T> parsed_lines(std::string_view text, const std::filesystem::path& file, int64_t before = 0) {
  std::vector<T> values;
  for (const std::string_view line : lines_of(text)) {
    try {
      read_json(record::known_part<T>(parse_json(line)), values.emplace_back(), "");
      check(values.back());
    } catch (const std::exception& error) {
      throw Error(
          ErrorCode::corrupt_data,
          quote(file.string()) + " is damaged: line " +
              std::to_string(before + static_cast<int64_t>(values.size())) + ": " + error.what(),
          "delete that line while no program works on the sweep; what it says is then found again or lost");
    }
  }
  return values;
}

template <Described T>
std::vector<T> read_lines(const std::filesystem::path& file) {
  std::error_code none;
  if (!std::filesystem::exists(file, none)) return {};
  return parsed_lines<T>(read_regular_file(file, kMostBytes), file);
}

// A writer that was killed, or a full disk, may have left an incomplete last line, which would spoil the
// next.
void cut_incomplete_line(const OpenFile& file) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw errno_error(errno, "look at", file.path().string());
  char last = '\n';
  if (status.st_size == 0 || (file.read_at(status.st_size - 1, {&last, 1}) == 1 && last == '\n')) return;
  const std::string text = read_file(file.path(), kMostBytes);
  const auto complete = static_cast<off_t>(text.rfind('\n') + 1);  // npos + 1 is 0
  if (::ftruncate(file.get(), complete) != 0) throw errno_error(errno, "cut", file.path().string());
}

// The caller holds the lock of the log. The file can be read, too.
void append_line(OpenFile& file, const Json& json) {
  cut_incomplete_line(file);
  file.write(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void apply(const LogLine& line, Row& row) {
  switch (line.kind) {
    case LogKind::begin:
      row.state = TrialState::running;
      row.parameters.clear();
      for (const std::string& one : line.parameters)
        row.parameters.emplace_back(one.substr(0, one.find('=')), one.substr(one.find('=') + 1));
      break;
    case LogKind::outcome: {
      const Outcome outcome = outcome_of(line);
      row.state = outcome.state;
      row.value = line.value;
      row.step = outcome.step;
      row.total_steps = outcome.total_steps;
      row.seconds = line.seconds.value_or(0);
      row.error = outcome.error;
      row.weights_hash = line.weights_hash.value_or("");
      break;
    }
    case LogKind::lost:
      break;
    case LogKind::early:
      row.state = TrialState::early;
      row.error.clear();
      row.weights_hash.clear();  // of its full length, if another search had trained it that far
      if (line.value) row.value = line.value;
      if (line.step) row.step = *line.step;
      break;
    case LogKind::restart:
      row = {.trial = row.trial, .parameters = row.parameters};
      break;
  }
}

}  // namespace

std::filesystem::path SweepPaths::trial(int64_t number) const {
  return folder / "trials" / four_digits(number);
}

std::filesystem::path SweepPaths::output(int64_t number) const {
  return folder / "trials" / (four_digits(number) + ".out");
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
          .count = options.count == 0 && !is_grid ? 20 : options.count,
          .lag = options.lag,
          .maximize = maximizes(),
          .stop = options.stop_rule,
          .first_rung = options.first_rung,
          .reduction = options.reduction,
          .free = options.free};
}

SweepSpec spec_from_json(const Json& json, const std::string& where) {
  if (!json.is_object() || !json.contains("command") || !json.contains("parameters"))
    throw Error(ErrorCode::invalid_option, where + " is no sweep: it needs a command and parameters",
                R"({"command": ["train", "FOLDER"], "parameters": {"learning-rate": "0.001..0.1:log"}})");
  SweepSpec spec;
  Json options = Json::object();
  for (const auto& [key, value] : json.items()) {
    if (key == "command") {
      if (!value.is_array() || value.empty())
        throw Error(ErrorCode::invalid_option, where + ": the command is no list of words",
                    R"(write "command": ["train", "FOLDER", "--max-epochs", "2"])");
      for (const Json& word : value) {
        if (!word.is_string())
          throw Error(ErrorCode::invalid_option, where + ": the command is no list of words");
        spec.command.push_back(word.get<std::string>());
      }
    } else if (key == "parameters") {
      spec.space = Space::from_json(value);
    } else if (key == "working_folder" && value.is_string()) {
      spec.working_folder = value.get<std::string>();
    } else {
      options[key] = value;
    }
  }
  read_json(options, spec.options, where);
  return spec;
}

SweepSpec read_spec(const SweepPaths& paths) {
  std::error_code none;
  if (!std::filesystem::exists(paths.spec(), none))
    throw Error(
        ErrorCode::not_found, quote(paths.folder.string()) + " is not the folder of a sweep",
        "lockstep sweep writes into the folder of its --output, or into sweeps/sweep-001, sweep-002, ...");
  try {
    return spec_from_json(parse_json(read_regular_file(paths.spec(), kMostSpec)),
                          quote(paths.spec().string()));
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::corrupt_data, quote(paths.spec().string()) + " is damaged: " + error.what());
  }
}

void write_spec(const SweepPaths& paths, const SweepSpec& spec) {
  check_texts(spec);
  Json json = lockstep::to_json(spec.options);
  json["command"] = spec.command;
  json["working_folder"] = spec.working_folder;
  json["parameters"] = spec.space.to_json();
  write_file_atomic(paths.spec(), json.dump(2) + "\n");
}

std::optional<std::string> difference(const SweepSpec& had, const SweepSpec& asked) {
  if (had.command != asked.command) return "its command is " + join(had.command, " ");
  if (had.space.to_json() != asked.space.to_json()) return "it searches other parameters";
  const Json of_had = lockstep::to_json(had.options), of_asked = lockstep::to_json(asked.options);
  for (const char* name : {"search", "seed", "grid-steps", "metric", "goal", "stop-rule", "first-rung",
                           "reduction", "lag", "free"}) {
    if (of_had[name] != of_asked[name]) return "its --" + std::string(name) + " is " + of_had[name].dump();
  }
  return std::nullopt;
}

std::vector<LogLine> read_log(const SweepPaths& paths) { return read_lines<LogLine>(paths.log()); }

std::vector<LogLine> LogReader::read() {
  std::error_code none;
  const auto size = std::filesystem::file_size(file_, none);
  if (none || static_cast<int64_t>(size) <= offset_) return {};
  const OpenFile opened(file_, O_RDONLY);
  std::string text(static_cast<size_t>(static_cast<int64_t>(size) - offset_), '\0');
  text.resize(opened.read_at(offset_, text));
  text.resize(text.rfind('\n') + 1);
  offset_ += static_cast<int64_t>(text.size());
  std::vector<LogLine> lines = parsed_lines<LogLine>(text, file_, lines_);
  lines_ += static_cast<int64_t>(lines.size());
  return lines;
}

LogWriter::LogWriter(const SweepPaths& paths)
    : lock_(paths.log_lock()), file_(paths.log(), O_RDWR | O_CREAT | O_APPEND) {}

void LogWriter::write(LogLine line) {
  line.time = now_seconds();
  const auto lock = jobs::FileLock::take(lock_);
  append_line(file_, lockstep::to_json(line));
}

bool is_shared_now(const SweepPaths& paths) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(paths.runners(), none)) {
    if (jobs::is_held(entry.path())) return true;
  }
  return false;
}

bool is_worked_on(const SweepPaths& paths) { return jobs::is_held(paths.lock()) || is_shared_now(paths); }

Outcome outcome_of(const LogLine& line) {
  return {.state = line.state.value_or(TrialState::failed),
          .value = line.value.value_or(kAbsent),
          .step = line.step.value_or(0),
          .total_steps = line.total_steps.value_or(0),
          .error = line.text.value_or("")};
}

std::string state_of(const Row& row) { return enum_names(row.state)[static_cast<size_t>(row.state)]; }

std::string text_of(const Row& row, const std::string& parameter) {
  for (const auto& [name, value] : row.parameters) {
    if (name == parameter) return value;
  }
  return "";
}

bool Table::can_end(int64_t trial) const {
  return std::any_of(rows.begin(), rows.end(), [&](const Row& row) {
    return row.trial == trial &&
           (row.state == TrialState::running || (row.state == TrialState::waiting && row.value));
  });
}

const Row* Table::best() const {
  const Row* best = nullptr;
  std::optional<ResultRank> rank_of_best;
  for (const Row& row : rows) {
    const auto rank = rank_of_result(row.state, row.value.value_or(kAbsent), spec.maximizes());
    if (!rank || (rank_of_best && *rank >= *rank_of_best)) continue;
    best = &row;
    rank_of_best = rank;
  }
  return best;
}

Table read_table(const SweepPaths& paths) {
  Table table{.spec = read_spec(paths)};
  std::map<int64_t, Row> rows;
  for (const LogLine& line : read_log(paths)) {
    Row& row = rows.try_emplace(line.trial, Row{.trial = line.trial}).first->second;
    apply(line, row);
  }
  for (Note& note : read_lines<Note>(paths.notes())) {
    if (const auto row = rows.find(note.trial); row != rows.end()) row->second.note = std::move(note.text);
  }
  table.is_going_on = is_worked_on(paths);
  for (auto& [number, row] : rows) {
    if (row.state == TrialState::running) {
      if (!table.is_going_on) row.state = TrialState::waiting;
      if (const auto status = record::read_status(paths.trial(number))) {
        row.step = status->step;
        row.total_steps = status->total_steps;
      }
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Json json_of(const Row& row) {
  Json json{{"trial", row.trial}, {"state", state_of(row)}};
  json["result"] = row.value ? Json(*row.value) : Json();
  json["steps"] = row.step;
  json["total_steps"] = row.total_steps;
  json["seconds"] = row.seconds;
  if (!row.weights_hash.empty()) json["weights_hash"] = row.weights_hash;
  if (!row.error.empty()) json["error"] = row.error;
  if (!row.note.empty()) json["note"] = row.note;
  Json& parameters = json["parameters"] = Json::object();
  for (const auto& [name, value] : row.parameters) parameters[name] = value;
  return json;
}

void check_is_trial(const SweepPaths& paths, int64_t trial) {
  const Table table = read_table(paths);
  if (std::none_of(table.rows.begin(), table.rows.end(), [&](const Row& row) { return row.trial == trial; }))
    throw Error(ErrorCode::not_found, "the sweep has no trial " + std::to_string(trial),
                "lockstep sweep show " + shell_word(paths.folder.string()) + " lists them");
}

void annotate(const SweepPaths& paths, int64_t trial, const std::string& text) {
  check_is_trial(paths, trial);
  const auto lock = jobs::FileLock::take(paths.log_lock());
  OpenFile file(paths.notes(), O_RDWR | O_CREAT | O_APPEND);
  append_line(file, lockstep::to_json(Note{trial, text}));
  file.close();
}

}  // namespace lockstep::sweep
