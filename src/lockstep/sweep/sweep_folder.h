// The folder of a sweep: sweep.json says what is searched, log.jsonl what has happened, and trials/0007 is
// the run folder of a trial. Everything that others know of a sweep is found from these files.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/sweep/search.h"
#include "lockstep/sweep/sweep_options.h"

namespace lockstep::sweep {

/// A value.
struct SweepPaths {
  std::filesystem::path folder;
  std::filesystem::path spec() const { return folder / "sweep.json"; }
  std::filesystem::path log() const { return folder / "log.jsonl"; }
  std::filesystem::path notes() const { return folder / "notes.jsonl"; }
  std::filesystem::path lock() const { return folder / "lock"; }
  std::filesystem::path log_lock() const { return folder / "log.lock"; }
  std::filesystem::path requests() const { return folder / "requests"; }
  std::filesystem::path runners() const {
    return folder / "runners";
  }  ///< a lock of each, where there are several
  std::filesystem::path claims() const { return folder / "claims"; }
  std::filesystem::path jobs() const { return folder / "jobs.json"; }       ///< in which runners work
  std::filesystem::path jobs_lock() const { return folder / "jobs.lock"; }  ///< of who submits them
  std::filesystem::path report() const { return folder / "report.html"; }
  std::filesystem::path trial(int64_t number) const;
  std::filesystem::path output(int64_t number) const;  ///< what it wrote to standard output and error
  /// {parameters} of another program than train. Beside the folder, which the program may make a run's.
  std::filesystem::path parameters(int64_t number) const;
};

/// sweep.json.
struct SweepSpec {
  SweepOptions options{};
  Space space{};
  std::vector<std::string> command{};  ///< "train" and its words, or another program
  std::string working_folder{};
  /// What makes the table depend on the clock, the machine or the workers; empty: nothing is known to.
  std::vector<std::string> not_reproducible{};

  bool trains() const { return !command.empty() && command.front() == "train"; }
  /// Whether trials are threads of one process.
  bool on_threads() const;
  std::string metric() const;
  bool maximizes() const;
  SearchOptions search() const;
};

/// A longer sweep.json is none.
inline constexpr int64_t kMostSpecBytes = int64_t{16} << 20;

/// Throws not_found if it is no folder of a sweep, corrupt_data.
SweepSpec read_spec(const SweepPaths& paths);
void write_spec(const SweepPaths& paths, const SweepSpec& spec);
/// "another sweep may give another table, because of --free"; empty if nothing is known to make it another
/// one.
std::string not_reproducible_text(const SweepSpec& spec);
/// sweep.json as a user may write it: "command", "parameters" and options by their names. Throws
/// invalid_option.
SweepSpec spec_from_json(const Json& json, const std::string& where);

/// What must be the same when a sweep goes on. Nothing if all of it is; else what differs, in words.
std::optional<std::string> difference(const SweepSpec& had, const SweepSpec& asked);

/// Whether programs share it (EngineOptions::shared).
bool is_shared_now(const SweepPaths& paths);
/// Whether a program works on the sweep.
bool is_worked_on(const SweepPaths& paths);

/// A row of the sweep's table.
struct Row {
  int64_t trial = 0;
  TrialState state = TrialState::waiting;
  Assignment parameters{};
  std::optional<double> value{};
  int64_t step = 0;
  int64_t total_steps = 0;
  double seconds = 0;
  std::string error{};
  std::string weights_hash{};
  std::string note{};
  bool is_cut_short = false;  ///< nobody trains it until its turn comes again
};

/// "ended"
std::string state_of(const Row& row);
/// A result as tables show it: with four decimals, a small or large one with four significant digits. Studio
/// has the same rule (resultText in format.js).
std::string result_text(double value);
/// As the command has it; empty where the parameter does not count.
std::string text_of(const Row& row, const std::string& parameter);

/// Where a trial stands by its result, the best first: trials whose result counts (rank_of_result), then
/// those that have one so far, then those without one. Of equal ones the first trial is the best.
using RowRank = std::pair<int, ResultRank>;
RowRank rank_of(const Row& row, bool maximize);

struct Table {
  SweepSpec spec{};
  std::vector<Row> rows{};
  bool is_going_on = false;
  const Row* best() const;
  /// Whether a sweep that goes on can end the trial with the result that it has: it is trained, paused at a
  /// rung, or was cut short.
  bool can_end(int64_t trial) const;
};

/// From the files alone. Steps of trials that go on are those of their own status. A program that reads the
/// table again and again has a TableReader.
Table read_table(const SweepPaths& paths);

/// A row for other programs: {"trial": 3, "state": "ended", "result": 0.97, "steps": ..., "total_steps": ...,
/// "seconds": ..., "weights_hash": ..., "error": ..., "note": ..., "parameters": {...}}; what is empty is
/// left out, and "result" is null where there is none. Parameters are as Space::json_of has them.
Json json_of(const Row& row, const Space& space);

/// Throws not_found if no trial of this number has begun.
void check_is_trial(const SweepPaths& paths, int64_t trial);
/// The row of a trial. Throws as check_is_trial.
const Row& row_of(const Table& table, const SweepPaths& paths, int64_t trial);

/// Adds a note to a trial. Any program, also while the sweep goes on. Throws as check_is_trial, and
/// invalid_option for a copy (fetched_sweep.h).
void annotate(const SweepPaths& paths, int64_t trial, const std::string& text);

}  // namespace lockstep::sweep
