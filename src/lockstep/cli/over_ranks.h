// Runs a command on several ranks together, if a launcher started them.
#pragma once

#include <exception>
#include <memory>

#include "lockstep/cli/bounded_ending.h"
#include "lockstep/cli/failure.h"
#include "lockstep/cli/run_options.h"
#include "lockstep/cli/verb.h"
#include "lockstep/comm/rendezvous.h"
#include "lockstep/device/failure.h"

namespace lockstep::cli {

/// Calls `work` with the group of the launcher's ranks, or null without a launcher. An exception of one rank
/// is also reported to the others. Only the leading rank prints and writes. The command must have the options
/// of RankSettings.
template <class Work>
int over_ranks(const Call& call, Console& console, Work work) {
  if (!call.launch) return work(nullptr);
  const std::unique_ptr<comm::Communicator> group =
      comm::join_group(*call.launch, {}, joining_of(call, console));
  return with_bounded_ending(call, [&] {
    try {
      return work(group.get());
    } catch (...) {
      group->abort(as_error(std::current_exception(), device::error_of));
      throw;
    }
  });
}

inline bool leads(const comm::Communicator* group) { return group == nullptr || group->rank() == 0; }

}  // namespace lockstep::cli
