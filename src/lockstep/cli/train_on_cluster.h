// Training with --execution parallel: where it is more than this process.
#pragma once

#include <optional>

#include "lockstep/cli/verb.h"

namespace lockstep::cli {

/// `lockstep train --execution parallel`, outside of a launcher and of a job of ours:
///  - in an allocation of Slurm with several tasks: trains in a step with all of them;
///  - else, if the default profile is a cluster: submits the same command as a job of that profile, and shows
///    its progress until it is over. A signal only detaches.
/// Returns the exit status; nothing for another command, and where this process is to train.
std::optional<int> train_on_cluster(const Verb& verb, const Call& call, Console& console);

}  // namespace lockstep::cli
