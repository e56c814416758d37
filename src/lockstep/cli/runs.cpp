#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <map>
#include <mutex>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/row_limit.h"
#include "lockstep/cli/run_table.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/record/registry.h"

namespace lockstep::cli {
namespace {

using record::RunSummary;

constexpr auto kRedrawInterval = std::chrono::seconds(2);
constexpr int kScreenLinesBesides = 3;  // the heading, the count, and the line of the cursor

struct RunsChoice {
  RunColumn sort = RunColumn::age;
  std::string filter;
  int64_t limit = 0;
  bool watch = false;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Rows");
    field("sort", self.sort, "column to sort by, smallest first; age: the newest last");
    field("filter", self.filter,
          "show only runs that contain this text, or state=STATE, run=TEXT, network=TEXT, data=TEXT; several "
          "words "
          "must all fit");
    field("limit", self.limit, "show only the last N rows; 0: all", between(0, 1e9));
    field("watch", self.watch, "show it again every two seconds, until Ctrl-C");
  };
};

// What is asked for on the command line.
struct Asked {
  std::vector<std::filesystem::path> roots;
  RunsChoice choice;
  bool json = false;
};

Asked asked_of(const Call& call) {
  Asked asked{.roots = {call.words.begin(), call.words.end()},
              .choice = settings_of<RunsChoice>(call),
              .json = settings_of<JsonOutput>(call).json};
  // Where lockstep train puts them.
  if (asked.roots.empty()) asked.roots = {std::filesystem::is_directory("runs") ? "runs" : "."};
  for (const std::filesystem::path& root : asked.roots) {
    std::error_code code;
    if (std::filesystem::exists(root, code) || code) continue;
    const std::string near = nearest(root.string(), {"show", "remove"});
    throw Error(ErrorCode::not_found, "there is no folder " + quote(root.string()),
                near.empty() ? "name a folder of runs" : "did you mean lockstep runs " + near + "?");
  }
  return asked;
}

// Those that are shown, and how many there are with those that --limit leaves out.
struct ShownRuns {
  std::vector<RunSummary> runs{};
  size_t total = 0;
  std::vector<std::string> warnings{};
};

ShownRuns read_list(const record::RunRegistry& registry, const Asked& asked) {
  record::RunList list = registry.list(asked.roots);
  filter_runs(list.runs, asked.choice.filter);
  sort_runs(list.runs, asked.choice.sort);
  const size_t total = keep_last(list.runs, asked.choice.limit);
  return {std::move(list.runs), total, std::move(list.warnings)};
}

std::string as_json(const std::vector<RunSummary>& runs) {
  std::string text = "[";
  for (const RunSummary& run : runs) {
    text += text.size() == 1 ? "\n" : ",\n";
    text += lockstep::to_json(run).dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return text + "\n]\n";
}

std::string none_text(const Asked& asked) {
  std::vector<std::string> names;
  for (const std::filesystem::path& root : asked.roots)
    names.push_back(root == "." ? "this folder" : quote(root.string()));
  const bool filtered = !asked.choice.filter.empty();
  return printable("there are no runs in " + join(names, " and ") +
                   (filtered ? " that fit " + quote(asked.choice.filter) : "")) +
         (filtered
              ? "\n  hint: without --filter, lockstep runs lists all of them\n"
              : "\n  hint: lockstep train FOLDER makes one; lockstep runs ROOT looks in another folder\n");
}

std::string as_text(const ShownRuns& shown, const Asked& asked, int width) {
  if (shown.runs.empty()) return none_text(asked);
  return run_table(shown.runs, now_seconds(), width) + "\n" + count_of(shown.runs, shown.total);
}

void warn(const ShownRuns& shown, Console& console) {
  for (const std::string& warning : shown.warnings) console.note("warning: " + printable(warning) + "\n");
}

int screen_lines() {
  struct winsize size {};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : 24;
}

// The rows at the end, as many as the screen holds. A broken reason takes more lines, so lines are counted.
std::string one_screen(const ShownRuns& shown, const Asked& asked, int width) {
  std::vector<RunSummary> runs = shown.runs;
  const auto most = static_cast<size_t>(std::max(1, screen_lines() - kScreenLinesBesides));
  const std::string count = runs.empty() ? "" : "\n" + count_of(runs, shown.total);
  while (true) {
    const std::string table = runs.empty() ? none_text(asked) : run_table(runs, now_seconds(), width);
    const auto lines = static_cast<size_t>(std::count(table.begin(), table.end(), '\n'));
    if (lines <= most || runs.size() < 2) return table + count;
    const size_t surplus = std::min(runs.size() - 1, std::max<size_t>(1, (lines - most) / 2));
    runs.erase(runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(surplus));
  }
}

// Over what is on the screen, without an empty screen between.
void redraw(const std::string& text, Console& console) {
  std::string screen = "\033[H";
  for (const char c : text) screen += c == '\n' ? std::string("\033[K\n") : std::string(1, c);
  console.print(screen + "\033[J");
}

// Shows a list again and again: on a terminal a screen, elsewhere the runs that have changed.
class Watch {
 public:
  Watch(const Asked& asked, Console& console) : asked_(asked), console_(console) {}

  void show(const ShownRuns& shown) {
    if (console_.can_redraw() && !asked_.json) {
      if (is_first_) console_.print("\033[2J");
      redraw(one_screen(shown, asked_, console_.table_width()), console_);
    } else {
      show_changes(shown.runs);
    }
    is_first_ = false;
  }

 private:
  void show_changes(const std::vector<RunSummary>& runs) {
    std::vector<RunSummary> changed;
    std::map<std::string, std::string> words;
    for (const RunSummary& run : runs) {
      std::string& word = words[run.folder];
      word = state_word(run) + run.reason + std::to_string(run.step.value_or(-1)) +
             shortest(run.accuracy.value_or(-1));
      const auto before = words_.find(run.folder);
      if (before == words_.end() || before->second != word) changed.push_back(run);
    }
    words_ = std::move(words);
    if (asked_.json) {
      for (const RunSummary& run : changed)
        console_.print(lockstep::to_json(run).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
    } else if (is_first_) {
      console_.print(changed.empty() ? none_text(asked_) : run_table(changed, now_seconds(), 0));
    } else if (!changed.empty()) {
      console_.print(run_lines(changed, now_seconds()));
    }
  }

  const Asked& asked_;
  Console& console_;
  bool is_first_ = true;
  std::map<std::string, std::string> words_;  // what was shown last of each run
};

int watch_runs(const record::RunRegistry& registry, const Asked& asked, Console& console) {
  launch::StopSignals signals("");
  Watch watch(asked, console);
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  while (!signals.token().stop_requested()) {
    watch.show(read_list(registry, asked));
    never.wait_for(lock, signals.token(), kRedrawInterval, [] { return false; });
  }
  if (console.is_terminal()) console.print("\n");
  return signals.signal() == SIGINT ? 0 : launch::kSignalStatus + signals.signal();
}

}  // namespace

std::vector<FieldInfo> runs_fields() { return fields_of<RunsChoice>() + fields_of<JsonOutput>(); }

int run_runs(const Call& call, Console& console) {
  const Asked asked = asked_of(call);
  const record::RunRegistry registry;
  if (asked.choice.watch) return watch_runs(registry, asked, console);
  const ShownRuns shown = read_list(registry, asked);
  warn(shown, console);
  console.print(asked.json ? as_json(shown.runs) : as_text(shown, asked, console.table_width()));
  return 0;
}

}  // namespace lockstep::cli
