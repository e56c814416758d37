// The communicator of ranks on several hosts.
#pragma once

#include <memory>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/internal/control_line.h"
#include "lockstep/comm/internal/gloo_group.h"

namespace lockstep::comm {

/// How a rank reaches the others.
struct GlooPlace {
  c10::intrusive_ptr<c10d::Store> store;  ///< where all meet; kept, because rank 0's may serve it
  std::string address;                    ///< of this machine, reachable from the others
  Members members;
  Descriptor control;  ///< of the control line: rank 0's listens
};

/// Blocks until all ranks are connected. Throws what c10d throws.
std::unique_ptr<Communicator> make_gloo_communicator(GlooPlace place, CommunicatorOptions options);

}  // namespace lockstep::comm
