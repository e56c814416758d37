// Signs of life between ranks.
#pragma once

#include <algorithm>
#include <chrono>

namespace lockstep::comm {

constexpr std::chrono::milliseconds kBeat{500};
constexpr int kMostSilentBeats =
    8;  // counted, not timed: a process that was stopped together with the others has missed the same number

/// When the next sign of life is due: regularly, and only once after a time in which this process did not
/// run.
inline std::chrono::steady_clock::time_point after_beat(std::chrono::steady_clock::time_point due) {
  return std::max(due + kBeat, std::chrono::steady_clock::now());
}

}  // namespace lockstep::comm
