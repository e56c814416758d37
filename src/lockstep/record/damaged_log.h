// Reading a run's event logs for what can do without a few lines: curves, where a run's data lie.
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/record/follower.h"

namespace lockstep::record {

/// As Follower::read_all, but lines that are no events are passed over, and what cannot be read counts as
/// absent. Returns what is wrong with the logs, in one line with the first damaged place; empty: nothing.
/// Gives up after 1,000 damaged lines. `take` throws no Error.
std::string read_past_damage(const std::filesystem::path& run_folder, const Follower::Take& take);

}  // namespace lockstep::record
