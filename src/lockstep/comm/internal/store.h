// The key-value store at which the ranks of a launch meet.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/comm/launcher.h"

namespace lockstep::comm {

/// Where the ranks of a launch meet, as seen from this machine: launch.address, unless it is the name that Slurm has for the first machine, and that is not
/// known here, or known as a loopback (Debian's installer writes "127.0.1.1 NAME" on each machine). Then it is where srun ran or, on the first machine,
/// the address from which it reaches that. Throws communication.
Launch at_meeting_place(Launch launch);

/// c10d's store at launch.address, served by the launcher or else by rank 0, as long as that has it. Throws communication, and what c10d throws.
c10::intrusive_ptr<c10d::Store> open_store(const Launch& launch);

}  // namespace lockstep::comm
