// What barriers do before they sleep.
#pragma once

#include <chrono>

namespace lockstep::comm {

inline constexpr std::chrono::microseconds kSpin{20};

/// Tells the processor that this thread is in a loop that waits for a change.
inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace lockstep::comm
