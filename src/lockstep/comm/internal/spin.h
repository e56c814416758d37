// What barriers do before they sleep.
#pragma once

#include <chrono>

namespace lockstep::comm {

inline constexpr std::chrono::microseconds kSpin{20};

/// Tells the processor that this thread looks for a change over and over.
inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace lockstep::comm
