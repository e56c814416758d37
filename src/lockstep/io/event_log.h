// The event log in a run folder: JSON lines, one file per rank and attempt, each with one writer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/io/event.h"

namespace lockstep::io {

/// Appends to RUN/events/rank-R-attempt-A.jsonl, a new file. One thread at a time. Each event is handed to
/// the system at once, so that readers and survivors of a kill see it.
class EventLog {
 public:
  /// Throws io when the file is there already: an attempt has one writer for each rank.
  EventLog(const std::filesystem::path& run_folder, int64_t rank, int64_t attempt);
  ~EventLog();

  /// Fills time (where it is 0), rank, attempt and sequence and writes the line. When it cannot be written (a
  /// full disk), what was written of it is taken back and the error is thrown, once: later events are filled
  /// but dropped and counted.
  void write(Event& event);

  int64_t dropped_count() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The attempt that a new start in this folder has: one more than the highest there, 0 in a new folder.
int64_t next_attempt(const std::filesystem::path& run_folder);

/// What the newest attempt of this run said at its end; nothing where it was killed or has not ended yet, and
/// without an event log. Throws as read_events.
std::optional<Event> end_of_last_attempt(const std::filesystem::path& run_folder);

/// Every event of all ranks, in order of step, attempt, then time. An attempt replaces what earlier attempts
/// said of its first step and of all later ones, for it went back to a checkpoint before them. A torn last
/// line of a file is ignored; a broken line elsewhere throws corrupt_data with file and line; not_found
/// without an event log.
std::vector<Event> read_events(const std::filesystem::path& run_folder);

}  // namespace lockstep::io
