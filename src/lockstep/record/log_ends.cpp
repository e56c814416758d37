#include "lockstep/record/log_ends.h"

#include <algorithm>
#include <charconv>
#include <fcntl.h>
#include <optional>
#include <string>
#include <sys/stat.h>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/error.h"
#include "lockstep/record/log_name.h"

namespace lockstep::record {
namespace {

constexpr int64_t kHeadChunk = int64_t{1} << 16;
constexpr int64_t kMostHead = int64_t{1} << 22;  // a plan of 100,000 classes fits
constexpr size_t kMostFirst = 8;                 // where a run begins, it says its plan and its environment
constexpr int64_t kTail = int64_t{1} << 19;      // about a thousand logged steps
constexpr size_t kMostTails = 3;                 // an attempt that has just begun has no validation

// At most `most` events of the whole lines in `text`.
std::vector<Event> events_in(std::string_view text, const LogName& name, size_t most) {
  std::vector<Event> events;
  for (size_t end = 0; events.size() < most && (end = text.find('\n')) != std::string_view::npos;
       text.remove_prefix(end + 1)) {
    if (end == 0) continue;
    try {
      events.push_back(from_line(text.substr(0, end)));
      events.back().writer = name.writer;
      events.back().attempt = name.attempt;  // other programs need not repeat it in their lines
    } catch (const Error&) {                 // see the struct
    }
  }
  return events;
}

std::string read_part(const OpenFile& file, int64_t from, int64_t bytes) {
  std::string text(static_cast<size_t>(bytes), '\0');
  text.resize(file.read_at(from, text));
  return text;
}

std::vector<Event> first_events(const OpenFile& file, const LogName& name) {
  std::string text;
  while (static_cast<int64_t>(text.size()) < kMostHead) {
    const int64_t wanted = text.empty() ? kHeadChunk : kMostHead - static_cast<int64_t>(text.size());
    const std::string more = read_part(file, static_cast<int64_t>(text.size()), wanted);
    text += more;
    if (text.find('\n') != std::string::npos || static_cast<int64_t>(more.size()) < wanted) break;
  }
  return events_in(text, name, kMostFirst);
}

// Most lines are logged steps, of which the last one is enough; reading them all would take most of the time.
std::string without_steps(std::string_view text) {
  constexpr std::string_view kStep = R"({"kind":"step",)", kNumber = R"("step":)";
  std::string kept;
  std::string_view step;
  int64_t last = 0;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n') + 1);
    text.remove_prefix(line.size());
    if (!line.starts_with(kStep)) {
      kept += line;
      continue;
    }
    step = line;
    int64_t number = last;
    if (line.substr(kStep.size()).starts_with(kNumber))
      std::from_chars(line.data() + kStep.size() + kNumber.size(), line.data() + line.size(), number);
    if (number < last) kept.clear();  // the run has begun again
    last = number;
  }
  return std::string(step) + kept;
}

std::vector<Event> last_events(const OpenFile& file, const LogName& name) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return {};
  const int64_t from = std::max<int64_t>(0, int64_t{status.st_size} - kTail);
  std::string text = read_part(file, from, kTail);
  if (from > 0) text.erase(0, text.find('\n') == std::string::npos ? text.size() : text.find('\n') + 1);
  // A line that lacks only its end is an event, and any other one is left out.
  const std::string lines = without_steps(text + "\n");
  return events_in(lines, name, lines.size());
}

// A folder or a pipe is no log.
std::optional<OpenFile> open_log(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return OpenFile(path, O_RDONLY);
}

std::vector<LogFile> logs_of_run(const std::filesystem::path& run_folder) {
  std::vector<LogFile> logs = log_files(run_folder);
  const auto is_other = [](const LogFile& log) { return log.name.writer != rank_writer(0); };
  if (!std::all_of(logs.begin(), logs.end(), is_other)) std::erase_if(logs, is_other);
  return logs;
}

}  // namespace

LogEnds ends_of_log(const std::filesystem::path& run_folder) {
  LogEnds ends;
  try {
    const std::vector<LogFile> logs = logs_of_run(run_folder);
    for (size_t i = 0; i < logs.size(); ++i) {
      const bool has_tail = i + kMostTails >= logs.size(), is_newest = i + 1 == logs.size();
      if (i > 0 && !has_tail) continue;
      const LogName& name = logs[i].name;
      const auto file = open_log(logs[i].path);
      if (!file) continue;
      if (i == 0) ends.first = first_events(*file, name);
      if (is_newest) ends.newest = i == 0 ? ends.first : first_events(*file, name);
      if (!has_tail) continue;
      for (Event& event : last_events(*file, name)) ends.last.push_back(std::move(event));
    }
  } catch (const Error&) {  // see the struct
  }
  return ends;
}

}  // namespace lockstep::record
