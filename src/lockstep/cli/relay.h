// Commands on jobs of a cluster that is reached through its login node: they run there, by ssh.
#pragma once

#include <optional>

#include "lockstep/cli/verb.h"

namespace lockstep::cli {

/// Runs the command on the login node if it concerns a profile that has one: `batch` and `cluster ...` by
/// their profile, `job ...` by a job's name such as "ours:12". Returns its exit status; nothing if the
/// command is for this machine.
std::optional<int> relay(const Verb& verb, const Call& call, Console& console);

/// After the list of jobs of this machine, those of profiles with a login node.
void list_relayed_jobs(const Call& call, Console& console);

/// On the login node: takes a message of `relay` from standard input, and becomes the command that it names.
int run_relay(const Call& call, Console& console);

}  // namespace lockstep::cli
