// What has happened in a sweep, as lines of files to which programs append: log.jsonl, and notes.jsonl for
// the notes of people.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/describe.h"
#include "lockstep/base/descriptor.h"
#include "lockstep/sweep/sweep_folder.h"

namespace lockstep::sweep {

/// A line of log.jsonl.
/// pause: nobody trains the trial now, which goes on later.
enum class LogKind { begin, outcome, lost, early, restart, pause };
constexpr std::array<const char*, 6> enum_names(LogKind) {
  return {"begin", "outcome", "lost", "early", "restart", "pause"};
}
struct LogLine {
  LogKind kind = LogKind::begin;
  double time = 0;
  int64_t trial = 0;
  int64_t until = 0;
  std::optional<TrialState> state{};
  std::optional<double> value{};  ///< of a lost attempt: what it had printed
  std::optional<int64_t> step{};
  std::optional<int64_t> total_steps{};
  std::optional<double> seconds{};
  std::optional<std::string> weights_hash{};
  std::optional<std::string> text{};      ///< an error, or why it was lost
  std::vector<std::string> parameters{};  ///< NAME=VALUE
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("kind", self.kind, "");
    field("time", self.time, "");
    field("trial", self.trial, "");
    field("until", self.until, "");
    field("state", self.state, "");
    field("value", self.value, "");
    field("step", self.step, "");
    field("total_steps", self.total_steps, "");
    field("seconds", self.seconds, "");
    field("weights_hash", self.weights_hash, "");
    field("text", self.text, "");
    field("parameters", self.parameters, "");
  };
};

Outcome outcome_of(const LogLine& line);

/// A line of notes.jsonl: what a person has written beside a trial. A later one replaces it.
struct Note {
  int64_t trial = 0;
  std::string text{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("trial", self.trial, "");
    field("text", self.text, "");
  };
};

/// Reads what is added to a file of lines: T is LogLine or Note. One thread.
template <Described T>
class LineReader {
 public:
  explicit LineReader(std::filesystem::path file) : file_(std::move(file)) {}
  /// The complete lines that are new since the last call; none where there is no file, or another one. Throws
  /// corrupt_data, with the number of the line; the next call then reads it again.
  std::vector<T> read();
  /// Whether lines that were read are not in the file any more: it was removed, replaced or cut.
  bool has_lost_lines() const;

 private:
  bool has_what_was_read(const OpenFile& file) const;

  std::filesystem::path file_;
  uint64_t inode_ = 0;  // of the file that was read
  std::string end_;     // the last bytes before offset_: another file may have the inode of a removed one
  int64_t offset_ = 0;
  int64_t lines_ = 0;  // before it
};
extern template class LineReader<LogLine>;
extern template class LineReader<Note>;
using LogReader = LineReader<LogLine>;

/// All complete lines. Throws corrupt_data, with the number of the line.
std::vector<LogLine> read_log(const SweepPaths& paths);

/// Appends to log.jsonl, also beside other programs. An incomplete last line, which a killed writer left, is
/// cut off before each line.
class LogWriter {
 public:
  explicit LogWriter(const SweepPaths& paths);
  void write(LogLine line);

 private:
  std::filesystem::path lock_;
  OpenFile file_;
};

/// Appends to notes.jsonl in the same way.
void write_note(const SweepPaths& paths, const Note& note);

}  // namespace lockstep::sweep
