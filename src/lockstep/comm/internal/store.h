// The key-value store at which the ranks of a launch meet.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/comm/launcher.h"

namespace lockstep::comm {

/// c10d's store at launch.address, served by the launcher or else by rank 0, as long as that has it. Throws communication, and what c10d throws.
c10::intrusive_ptr<c10d::Store> open_store(const Launch& launch);

}  // namespace lockstep::comm
