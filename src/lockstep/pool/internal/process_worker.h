// What a process does that was started as a worker.
#pragma once

#include <string>

#include <sys/types.h>

#include "lockstep/pool/internal/channel.h"
#include "lockstep/pool/task.h"

namespace lockstep::pool {

/// Does orders until the client closes the connection; then returns. Where the client is gone, or goes, the
/// process ends at once.
void work_for(pid_t client, const TaskTable& tasks);

/// How a process ends whose client has gone without a word.
struct ClientLoss {
  int status = 1;
  std::string words{};  ///< said on standard error
};

/// Does the orders that come through this socket until the client closes it; then returns.
void work_at(Descriptor socket, const TaskTable& tasks, const ClientLoss& at_loss);

}  // namespace lockstep::pool
