// The event log in a run folder: JSON lines, one file per rank and attempt, each with one writer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/record/event.h"

namespace lockstep::record {

/// Appends to RUN/events/WRITER-attempt-A.jsonl, a new file. One thread at a time. Each event is passed to
/// the system at once, so other programs see it, and it survives if the process is killed.
class EventLog {
 public:
  /// Throws io if the file exists: a log has one writer.
  EventLog(const std::filesystem::path& run_folder, int64_t rank, int64_t attempt);
  /// For a writer that is no rank: "client", "queue" or "sweep".
  EventLog(const std::filesystem::path& run_folder, const std::string& writer, int64_t attempt);
  ~EventLog();

  /// Fills time (if it is 0), rank, attempt and sequence, and writes the line. If the line cannot be written
  /// (for example on a full disk), its partial text is removed and the error is thrown, once; later events
  /// are filled but dropped and counted.
  void write(Event& event);

  int64_t dropped_count() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The attempt number of a new start in this folder: one more than the highest one of a rank there, 0 in a
/// new folder.
int64_t next_attempt(const std::filesystem::path& run_folder);
/// The same for a writer that is no rank, which counts its own.
int64_t next_attempt(const std::filesystem::path& run_folder, const std::string& writer);

/// The `end` event of the run's newest attempt; none if it was killed, has not ended, or has no event log.
/// Damaged lines are passed over.
std::optional<Event> end_of_last_attempt(const std::filesystem::path& run_folder);

/// The events of all writers, ordered by step, attempt and time. An attempt starts from a checkpoint, so what
/// its ranks measured replaces what earlier attempts measured from its first step on
/// (is_replaced_with_its_step). The same holds within an attempt for a run that begins again, except for
/// messages. An incomplete last line of a file is ignored. Throws corrupt_data with file
/// and line for any other invalid line, and not_found without an event log.
std::vector<Event> read_events(const std::filesystem::path& run_folder);

}  // namespace lockstep::record
