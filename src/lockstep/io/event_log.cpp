#include "lockstep/io/event_log.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <fcntl.h>
#include <map>
#include <optional>
#include <tuple>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"

namespace lockstep::io {
namespace {

constexpr int64_t kMostLogBytes = int64_t{1} << 30;

struct LogName {
  int64_t rank = 0;
  int64_t attempt = 0;
};

std::string file_name(LogName name) {
  return "rank-" + std::to_string(name.rank) + "-attempt-" + std::to_string(name.attempt) + ".jsonl";
}

bool take_word(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

bool take_number(std::string_view& text, int64_t& value) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(result.ptr - text.data()));
  return true;
}

std::optional<LogName> parse_name(std::string_view text) {
  LogName name;
  if (take_word(text, "rank-") && take_number(text, name.rank) && take_word(text, "-attempt-") &&
      take_number(text, name.attempt) && text == ".jsonl") {
    return name;
  }
  return std::nullopt;
}

std::filesystem::path events_folder(const std::filesystem::path& run_folder) { return run_folder / "events"; }

std::vector<std::pair<LogName, std::filesystem::path>> log_files(const std::filesystem::path& run_folder) {
  std::vector<std::pair<LogName, std::filesystem::path>> files;
  std::error_code code;
  std::filesystem::directory_iterator entries(events_folder(run_folder), code);
  for (; !code && entries != std::filesystem::directory_iterator(); entries.increment(code)) {
    if (const auto name = parse_name(entries->path().filename().string()))
      files.emplace_back(*name, entries->path());
  }
  if (code && code.value() != ENOENT)
    throw errno_error(code.value(), "list", events_folder(run_folder).string());
  return files;
}

void read_file_into(std::vector<Event>& events, const std::filesystem::path& path) {
  const std::string content = read_file(path, kMostLogBytes);
  std::string_view rest = content;
  for (int64_t line_number = 1; !rest.empty(); ++line_number) {
    const size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (line.empty()) continue;
    try {
      events.push_back(from_line(line));
    } catch (Error& error) {
      // Only the last line of a file can be incomplete after a kill or a power failure.
      if (rest.empty()) return;
      error.add_context("line " + std::to_string(line_number) + " of \"" + path.string() + "\"");
      throw;
    }
  }
}

// For each attempt, the first step that a later attempt repeated.
std::map<int64_t, int64_t> replaced_from(const std::vector<Event>& events) {
  std::map<int64_t, int64_t> first_step;
  for (const Event& event : events) {
    first_step.try_emplace(event.attempt, std::numeric_limits<int64_t>::max());
    if (event.kind == "step") first_step[event.attempt] = std::min(first_step[event.attempt], event.step);
  }
  std::map<int64_t, int64_t> limits;
  int64_t limit = std::numeric_limits<int64_t>::max();
  for (auto attempt = first_step.rbegin(); attempt != first_step.rend(); ++attempt) {
    limits[attempt->first] = limit;
    limit = std::min(limit, attempt->second);
  }
  return limits;
}

}  // namespace

struct EventLog::State {
  std::filesystem::path path;
  int descriptor = -1;
  int64_t rank = 0;
  int64_t attempt = 0;
  int64_t sequence = 0;
  int64_t dropped_count = 0;
  off_t size_bytes = 0;
  double last_time = 0;
  bool failed = false;
};

EventLog::EventLog(const std::filesystem::path& run_folder, int64_t rank, int64_t attempt)
    : state_(std::make_unique<State>()) {
  make_folders(events_folder(run_folder));
  state_->rank = rank;
  state_->attempt = attempt;
  state_->path = events_folder(run_folder) / file_name({rank, attempt});
  state_->descriptor = ::open(state_->path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
  if (state_->descriptor < 0) throw errno_error(errno, "create", state_->path.string());
}

EventLog::~EventLog() { ::close(state_->descriptor); }

int64_t EventLog::dropped_count() const { return state_->dropped_count; }

void EventLog::write(Event& event) {
  State& state = *state_;
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  // The order of events must not change if the clock is set back.
  state.last_time = std::max(state.last_time, event.time > 0 ? event.time : now);
  event.time = state.last_time;
  event.rank = state.rank;
  event.attempt = state.attempt;
  event.sequence = state.sequence++;
  if (state.failed) {
    ++state.dropped_count;
    return;
  }
  const std::string line = to_line(event) + "\n";
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = ::write(state.descriptor, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int reason = errno;
      state.failed = true;
      ++state.dropped_count;
      if (::ftruncate(state.descriptor, state.size_bytes) != 0) {
        // The incomplete line stays as the last line, which readers ignore.
      }
      throw errno_error(reason, "write", state.path.string());
    }
    rest.remove_prefix(static_cast<size_t>(written));
  }
  state.size_bytes += static_cast<off_t>(line.size());
}

int64_t next_attempt(const std::filesystem::path& run_folder) {
  int64_t next = 0;
  for (const auto& [name, path] : log_files(run_folder)) next = std::max(next, name.attempt + 1);
  return next;
}

std::optional<Event> end_of_last_attempt(const std::filesystem::path& run_folder) {
  const int64_t last = next_attempt(run_folder) - 1;
  std::vector<Event> events;
  for (const auto& [name, path] : log_files(run_folder)) {
    if (name.attempt == last) read_file_into(events, path);
  }
  const auto end =
      std::find_if(events.rbegin(), events.rend(), [](const Event& event) { return event.kind == "end"; });
  return end == events.rend() ? std::nullopt : std::optional(*end);
}

std::vector<Event> read_events(const std::filesystem::path& run_folder) {
  const auto files = log_files(run_folder);
  if (files.empty()) {
    throw Error(ErrorCode::not_found, "\"" + run_folder.string() + "\" has no event log",
                "name the --output folder of a run");
  }
  std::vector<Event> events;
  for (const auto& [name, path] : files) read_file_into(events, path);
  const auto limits = replaced_from(events);
  std::erase_if(events, [&](const Event& event) { return event.step >= limits.at(event.attempt); });
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::tie(a.step, a.attempt, a.time, a.rank, a.sequence) <
           std::tie(b.step, b.attempt, b.time, b.rank, b.sequence);
  });
  return events;
}

}  // namespace lockstep::io
