// Copies of a sweep that is elsewhere. A mark in the copy's folder keeps others from changing it or going on
// with it: the next fetch would overwrite their changes, and the trials would be trained twice.
#pragma once

#include <optional>
#include <string>

#include "lockstep/sweep/sweep_folder.h"

namespace lockstep::sweep {

/// Name of the lock of who fetches into the folder.
inline constexpr const char* kFetchedLock = "fetched.lock";

/// The mark, record::kFetchedMark: whose copy a folder is.
struct FetchedSweep {
  std::string sweep{};  ///< as commands here take it: "far:/home/me/search"
  double begun = 0;     ///< when its first trial began, in seconds since 1970; 0: none had begun
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("sweep", self.sweep, "");
    field("begun", self.begun, "");
  };
};

/// Nothing if the folder is no copy. Throws corrupt_data.
std::optional<FetchedSweep> fetched_from(const SweepPaths& paths);

/// "a copy of far:/home/me/search"; empty if the folder is no copy. Throws corrupt_data.
std::string copy_text(const SweepPaths& paths);

void mark_as_fetched(const SweepPaths& paths, const FetchedSweep& from);

/// Throws invalid_option if the folder is a copy.
///   command  what to type for the sweep itself: "restart SWEEP 3", where SWEEP stands for its name
void check_is_no_copy(const SweepPaths& paths, const std::string& command);

/// When the first trial of the sweep began; 0: none has.
double begun_at(const SweepPaths& paths);

}  // namespace lockstep::sweep
