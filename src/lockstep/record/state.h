// What a run is doing, found from its folder alone, by any process on any machine that sees the folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/record/status_file.h"

namespace lockstep::record {

/// A run that has not written for so long is lost, if its process cannot be looked for: on a disk of this
/// machine, and on a network file system, which shows writings late.
inline constexpr double kLostSeconds = 30;
inline constexpr double kLostSecondsOverNetwork = 180;

struct StateOfRun {
  RunState state = RunState::running;
  std::string reason{};  ///< one line; empty while it runs
  std::string hint{};
  int64_t attempt = -1;  ///< -1: not known
  int64_t step = -1;     ///< -1: not known
  int64_t epoch = 0;
  int64_t total_steps = 0;  ///< 0: not known
  std::optional<double> best_accuracy{};
  std::optional<int64_t> best_step{};
  std::string host{};         ///< of the writer; empty: not known
  double silent_seconds = 0;  ///< since the writer's last sign, while it runs or is lost
};

/// Also of runs by earlier versions and of programs that only write events. The age of the last sign is
/// measured against a file that is touched in the folder at this moment, so clocks of two machines are never
/// compared; where the caller may not write, against the caller's clock. Throws not_found if the folder is
/// not there, or holds no run.
StateOfRun state_of(const std::filesystem::path& run_folder);

/// Whether the folder has files of a run.
bool holds_run(const std::filesystem::path& folder);

}  // namespace lockstep::record
