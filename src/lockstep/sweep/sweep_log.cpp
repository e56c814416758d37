#include "lockstep/sweep/sweep_log.h"

#include <algorithm>
#include <cmath>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/regular_file.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/text.h"
#include "lockstep/jobs/job_lock.h"
#include "lockstep/record/known_part.h"

namespace lockstep::sweep {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 30;  // a line for each event of a trial
constexpr size_t kEndBytes = 1024;                // some lines of a log, each with its time

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
std::vector<T> parsed_lines(std::string_view text, const std::filesystem::path& file, int64_t before) {
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

}  // namespace

Outcome outcome_of(const LogLine& line) {
  return {.state = line.state.value_or(TrialState::failed),
          .value = line.value.value_or(kAbsent),
          .step = line.step.value_or(0),
          .total_steps = line.total_steps.value_or(0),
          .error = line.text.value_or("")};
}

template <Described T>
std::vector<T> LineReader<T>::read() {
  std::error_code none;
  if (!std::filesystem::exists(file_, none)) return {};
  check_is_regular_file(file_);
  const OpenFile opened(file_, O_RDONLY);
  if (offset_ > 0 && !has_what_was_read(opened)) return {};  // another file, as has_lost_lines() says
  struct stat status {};
  if (::fstat(opened.get(), &status) != 0) throw errno_error(errno, "look at", file_.string());
  if (status.st_size <= offset_) return {};
  if (status.st_size - offset_ > kMostBytes)
    throw Error(ErrorCode::corrupt_data, quote(file_.string()) + " has more than " + as_bytes(kMostBytes));
  std::string text(static_cast<size_t>(status.st_size - offset_), '\0');
  text.resize(opened.read_at(offset_, text));
  text.resize(text.rfind('\n') + 1);  // npos + 1 is 0
  std::vector<T> lines = parsed_lines<T>(text, file_, lines_);
  inode_ = status.st_ino;
  end_ += text;
  end_.erase(0, end_.size() - std::min(end_.size(), kEndBytes));
  offset_ += static_cast<int64_t>(text.size());
  lines_ += static_cast<int64_t>(lines.size());
  return lines;
}

template <Described T>
bool LineReader<T>::has_lost_lines() const {
  if (offset_ == 0) return false;
  std::error_code none;
  return !std::filesystem::is_regular_file(file_, none) || !has_what_was_read(OpenFile(file_, O_RDONLY));
}

template <Described T>
bool LineReader<T>::has_what_was_read(const OpenFile& file) const {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw errno_error(errno, "look at", file_.string());
  if (status.st_ino != inode_ || status.st_size < offset_) return false;
  std::string end(end_.size(), '\0');
  return file.read_at(offset_ - static_cast<int64_t>(end.size()), end) == end.size() && end == end_;
}

template class LineReader<LogLine>;
template class LineReader<Note>;

std::vector<LogLine> read_log(const SweepPaths& paths) { return LogReader(paths.log()).read(); }

LogWriter::LogWriter(const SweepPaths& paths)
    : lock_(paths.log_lock()), file_(paths.log(), O_RDWR | O_CREAT | O_APPEND) {}

void LogWriter::write(LogLine line) {
  line.time = now_seconds();
  const auto lock = jobs::FileLock::take(lock_);
  append_line(file_, lockstep::to_json(line));
}

void write_note(const SweepPaths& paths, const Note& note) {
  const auto lock = jobs::FileLock::take(paths.log_lock());
  OpenFile file(paths.notes(), O_RDWR | O_CREAT | O_APPEND);
  append_line(file, lockstep::to_json(note));
  file.close();
}

}  // namespace lockstep::sweep
