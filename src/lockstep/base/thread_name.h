// Names of threads, as top -H and debuggers show them.
#pragma once

#include <pthread.h>

namespace lockstep {

/// Names the calling thread; the system keeps at most 15 characters.
inline void name_this_thread(const char* name) { ::pthread_setname_np(::pthread_self(), name); }

}  // namespace lockstep
