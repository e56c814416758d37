#include <algorithm>
#include <cmath>
#include <ctime>
#include <sys/stat.h>

#include "lockstep/base/error.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/columns.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/run_table.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/record/disk_use.h"
#include "lockstep/record/event_kinds.h"
#include "lockstep/record/log_ends.h"
#include "lockstep/record/not_a_run.h"
#include "lockstep/record/result.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/record/summary.h"

namespace lockstep::cli {
namespace {

using record::Event;
using record::RunState;
using record::RunSummary;
using Rows = std::vector<std::vector<std::string>>;

constexpr size_t kMostValidations = 5;
constexpr size_t kMostFiles = 20;
constexpr size_t kMostCheckpoints = 5;

struct FileOfRun {
  std::string name;
  int64_t bytes = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("name", self.name, "");
    field("bytes", self.bytes, "");
  };
};

// Everything about one run that its files say.
struct Details {
  RunSummary run;
  std::optional<Event> plan;
  std::optional<Event> environment;
  std::vector<Event> validations;  // the last ones
  std::vector<FileOfRun> files;
  std::vector<FileOfRun> checkpoints;  // complete ones
  std::string weights_hash;            // of the weights at its end
};

std::string local_time(double seconds) {
  if (!(seconds > 0 && seconds < 1e11)) return "?";
  const auto whole = static_cast<std::time_t>(seconds);
  std::tm parts{};
  std::array<char, 64> text{};
  if (::localtime_r(&whole, &parts) == nullptr) return "?";
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts)};
}

std::vector<FileOfRun> files_in(const std::filesystem::path& folder) {
  std::vector<FileOfRun> files;
  std::error_code code;
  std::filesystem::directory_iterator entries(folder, code);
  for (; !code && entries != std::filesystem::directory_iterator(); entries.increment(code)) {
    struct stat status {};
    if (::lstat(entries->path().c_str(), &status) != 0) continue;
    const std::string name = entries->path().filename().string();
    if (S_ISDIR(status.st_mode))
      files.push_back({name + "/", record::disk_use(entries->path())});
    else
      files.push_back({name, S_ISREG(status.st_mode) ? int64_t{status.st_size} : 0});
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return files;
}

Details read_details(const std::filesystem::path& folder) {
  if (!record::is_run_folder(folder)) throw record::not_a_run(folder);
  Details details;
  details.run = record::summary_of(folder);
  details.files = files_in(folder);
  for (const FileOfRun& file : details.files) details.run.bytes += file.bytes;
  if (const auto result = record::read_result(folder); result && details.run.state == RunState::ended)
    details.weights_hash = result->weights_hash;
  const record::LogEnds ends = record::ends_of_log(folder);
  for (const Event& event : ends.newest) {
    if (event.kind == record::PlanOfRun::kind) details.plan = event;
    if (event.kind == record::Environment::kind) details.environment = event;
  }
  for (const Event& event : ends.last) {
    if (event.kind == record::Validation::kind) details.validations.push_back(event);
  }
  if (details.validations.size() > kMostValidations)
    details.validations.erase(details.validations.begin(), details.validations.end() - kMostValidations);
  const std::filesystem::path checkpoints = record::RunPaths{folder}.checkpoints();
  for (const FileOfRun& file : files_in(checkpoints)) {
    std::error_code code;
    if (std::filesystem::exists(checkpoints / file.name / "DONE", code)) details.checkpoints.push_back(file);
  }
  return details;
}

std::vector<std::string> texts_in(const Event& event, const char* key) {
  std::vector<std::string> texts;
  const auto found = event.values.is_object() ? event.values.find(key) : event.values.end();
  if (!event.values.is_object() || found == event.values.end() || !found->is_array()) return texts;
  for (const Json& item : *found) {
    if (item.is_string()) texts.push_back(item.get<std::string>());
  }
  return texts;
}

// Adds no row for an empty value.
void add(Rows& rows, const std::string& name, const std::string& value) {
  if (!value.empty()) rows.push_back({name, value});
}

std::string steps_of(const RunSummary& run) {
  if (!run.step) return "";
  return with_commas(*run.step) + (run.total_steps ? " of " + with_commas(*run.total_steps) : "") +
         (run.epoch > 0 ? ", epoch " + with_commas(run.epoch) : "");
}

std::string accuracy_of(const RunSummary& run) {
  if (!run.accuracy) return "";
  return fixed(*run.accuracy, 4) + (run.validation_loss ? ", loss " + fixed(*run.validation_loss, 4) : "") +
         (run.best_accuracy ? "; best " + fixed(*run.best_accuracy, 4) : "") +
         (run.best_accuracy && run.best_step ? " after step " + with_commas(*run.best_step) : "");
}

std::string sign_of(const RunSummary& run) {
  if (!run.last_sign) return "";
  const double now = now_seconds();
  return local_time(*run.last_sign) + ", " + age_text(std::max(0.0, now - *run.last_sign)) + " ago";
}

Rows main_rows(const Details& details) {
  const RunSummary& run = details.run;
  Rows rows;
  const std::string state = state_word(run);
  rows.push_back({"state", run.reason.empty() || run.reason == state ? state : state + ": " + run.reason});
  add(rows, "hint", run.hint);
  add(rows, "network", run.network);
  add(rows, "data", run.data);
  add(rows, "steps", steps_of(run));
  add(rows, "held-out accuracy", accuracy_of(run));
  if (run.test_accuracy) add(rows, "test accuracy", fixed(*run.test_accuracy, 4));
  add(rows, "weights", details.weights_hash);
  if (run.loss) add(rows, "training loss", fixed(*run.loss, 4));
  if (run.seconds) add(rows, "time", as_duration(*run.seconds));
  if (run.started) add(rows, "started", local_time(*run.started));
  add(rows, "last sign", sign_of(run));
  add(rows, "host", run.host);
  add(rows, "size", as_bytes(run.bytes));
  return rows;
}

std::string command_line(const Event& environment) {
  std::vector<std::string> words = texts_in(environment, "arguments");
  for (std::string& word : words) word = shell_word(word);
  return join(words, " ");
}

Rows environment_rows(const Event& event) {
  Rows rows;
  const auto whole = [&](const char* key) -> int64_t {
    const double value = record::number(event, key, 0);
    return value >= 1 && value < 1e15 ? static_cast<int64_t>(value) : 0;
  };
  const auto count = [&](const char* key) {
    return whole(key) > 0 ? with_commas(whole(key)) : std::string();
  };
  add(rows, "command", command_line(event));
  add(rows, "in folder", record::text(event, "working_folder"));
  if (whole("process") > 0) add(rows, "process", std::to_string(whole("process")));
  add(rows, "version", record::text(event, "version"));
  add(rows, "build", record::text(event, "build"));
  add(rows, "LibTorch", record::text(event, "libtorch"));
  add(rows, "cores", count("cores"));
  add(rows, "GPUs", join(texts_in(event, "gpus"), ", "));
  add(rows, "ranks", count("ranks"));
  add(rows, "workers", count("workers"));
  return rows;
}

// The lines of `lockstep plan`: each is [name, value, reason].
Rows plan_rows(const Event& event) {
  Rows rows;
  const auto lines = event.values.is_object() ? event.values.find("lines") : event.values.end();
  if (!event.values.is_object() || lines == event.values.end() || !lines->is_array()) return rows;
  for (const Json& line : *lines) {
    if (!line.is_array() || line.size() < 2 || !line[0].is_string() || !line[1].is_string()) continue;
    const std::string reason = line.size() > 2 && line[2].is_string() ? line[2].get<std::string>() : "";
    rows.push_back({line[0].get<std::string>(),
                    line[1].get<std::string>() + (reason.empty() ? "" : " (" + reason + ")")});
  }
  return rows;
}

std::string figure(double value) { return std::isnan(value) ? "-" : fixed(value, 4); }

Rows validation_rows(const std::vector<Event>& validations) {
  Rows rows;
  if (!validations.empty()) rows.push_back({"step", "epoch", "accuracy", "loss", ""});
  for (const Event& event : validations) {
    rows.push_back({with_commas(event.step), with_commas(event.epoch),
                    figure(record::number(event, "accuracy")), figure(record::number(event, "loss")),
                    record::flag(event, "best") ? "best" : ""});
  }
  return rows;
}

Rows file_rows(const std::vector<FileOfRun>& files, size_t most) {
  Rows rows;
  for (const FileOfRun& file : files) {
    if (rows.size() == most) {
      rows.push_back({"and " + with_commas(static_cast<int64_t>(files.size() - most)) + " more", ""});
      break;
    }
    rows.push_back({file.name, as_bytes(file.bytes)});
  }
  return rows;
}

bool is_of_train(const Details& details) {
  if (!details.environment) return std::filesystem::exists(record::RunPaths{details.run.folder}.options());
  const std::vector<std::string> words = texts_in(*details.environment, "arguments");
  return words.size() > 1 && words[1] == "train";
}

std::vector<std::string> next_commands(const Details& details) {
  const RunSummary& run = details.run;
  const std::string folder = shell_word(run.folder);
  if (!run.state) return {};
  switch (*run.state) {
    case RunState::queued:
      return {};
    case RunState::running:
      if (!std::filesystem::exists(record::RunPaths{run.folder}.status())) return {};  // it reads no requests
      return {"lockstep stop " + folder, "lockstep stop " + folder + " --finish"};
    case RunState::stopping:
      return {"lockstep stop " + folder + " --wait"};
    case RunState::ended:
      return is_of_train(details) ? std::vector<std::string>{"lockstep report " + folder,
                                                             "lockstep evaluate " + folder + " FOLDER"}
                                  : std::vector<std::string>{};
    default:
      break;
  }
  if (is_of_train(details))
    return {"lockstep train " + (run.data.empty() ? "FOLDER" : shell_word(run.data)) + " --output " + folder +
            " --resume"};
  return details.environment ? std::vector<std::string>{command_line(*details.environment)}
                             : std::vector<std::string>{};
}

class Page {
 public:
  explicit Page(int width) : width_(width) {}
  void add(const std::string& title, Rows rows, const std::string& sides) {
    if (!rows.empty()) text_ += "\n" + title + ":\n" + in_columns_within(width_, std::move(rows), sides);
  }
  void add_head(const std::string& title, Rows rows) {
    text_ += printable(title) + "\n" + in_columns_within(width_, std::move(rows), "ll");
  }
  const std::string& text() const { return text_; }

 private:
  int width_;
  std::string text_;
};

std::string page_of(const Details& details, int width) {
  Page page(width);
  page.add_head(details.run.folder, main_rows(details));
  page.add("validations", validation_rows(details.validations), "rrrrl");
  if (details.environment) page.add("environment", environment_rows(*details.environment), "ll");
  if (details.plan) page.add("plan", plan_rows(*details.plan), "ll");
  page.add("files", file_rows(details.files, kMostFiles), "lr");
  const size_t surplus = details.checkpoints.size() - std::min(details.checkpoints.size(), kMostCheckpoints);
  page.add("checkpoints",
           file_rows({details.checkpoints.begin() + static_cast<std::ptrdiff_t>(surplus),
                      details.checkpoints.end()},
                     kMostCheckpoints),
           "lr");
  std::string text = page.text();
  const std::vector<std::string> commands = next_commands(details);
  const bool resumes = details.run.state != RunState::running && details.run.state != RunState::ended;
  if (!commands.empty()) text += resumes ? "\nto continue:\n" : "\nnext:\n";
  for (const std::string& command : commands) text += "  " + printable(command) + "\n";
  return text;
}

Json json_of(const Details& details) {
  Json json = lockstep::to_json(details.run);
  if (details.environment) json["environment"] = details.environment->values;
  if (details.plan) json["plan"] = details.plan->values;
  if (!details.weights_hash.empty()) json["weights_hash"] = details.weights_hash;
  json["validations"] = Json::array();
  for (const Event& event : details.validations) {
    Json values = event.values;
    if (values.is_object()) values["step"] = event.step;
    json["validations"].push_back(values);
  }
  for (const auto& [name, files] :
       {std::pair{"files", &details.files}, {"checkpoints", &details.checkpoints}}) {
    json[name] = Json::array();
    for (const FileOfRun& file : *files) json[name].push_back(lockstep::to_json(file));
  }
  json["next"] = next_commands(details);
  return json;
}

}  // namespace

std::vector<FieldInfo> runs_show_fields() { return fields_of<JsonOutput>(); }

int run_runs_show(const Call& call, Console& console) {
  const Details details = read_details(call.words[0]);
  if (settings_of<JsonOutput>(call).json)
    console.print(json_of(details).dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  else
    console.print(page_of(details, console.table_width()));
  return 0;
}

}  // namespace lockstep::cli
