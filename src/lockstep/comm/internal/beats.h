// Signs of life between ranks.
#pragma once

#include <algorithm>
#include <chrono>

namespace lockstep::comm {

constexpr std::chrono::milliseconds kBeat{500};
constexpr int kMostSilentBeats =
    8;  // counted, not timed: who was stopped together with the others has missed as many as they

/// When the next one is due: regularly, and once, not often, after a time in which this process did not run.
inline std::chrono::steady_clock::time_point after_beat(std::chrono::steady_clock::time_point due) {
  return std::max(due + kBeat, std::chrono::steady_clock::now());
}

}  // namespace lockstep::comm
