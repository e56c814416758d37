// The end of a rank takes a limited time: what hangs while a process ends (a network, a driver, a library's
// own destructor) must not keep machines that others wait for.
#pragma once

#include <exception>

#include "lockstep/cli/verb.h"

namespace lockstep::cli {

/// The work of this process is done. Unless it ends by itself within 8 s, it ends at once with this exit
/// status.
void bound_ending(int status);

/// The same after an exception, which is told if the process does not come to tell it.
void bound_ending(const Call& call, const std::exception_ptr& failure);

/// Calls `work`, after which the end of the process is bounded if a launcher has started it as a rank. For
/// commands that only end after it; called where the rank's group still exists, whose end is bounded too.
template <class Work>
int with_bounded_ending(const Call& call, Work work) {
  if (!call.launch) return work();
  try {
    const int status = work();
    bound_ending(status);
    return status;
  } catch (...) {
    bound_ending(call, std::current_exception());
    throw;
  }
}

}  // namespace lockstep::cli
