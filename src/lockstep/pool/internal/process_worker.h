// The main loop of a process that was started as a worker.
#pragma once

#include <string>

#include <sys/types.h>

#include "lockstep/pool/internal/channel.h"
#include "lockstep/pool/task.h"

namespace lockstep::pool {

/// Executes orders until the client closes the connection; then returns. If the client dies, the process ends
/// at once.
void work_for(pid_t client, const TaskTable& tasks);

/// How a process ends whose client has died.
struct ClientLoss {
  int status = 1;
  std::string words{};  ///< printed on standard error
};

/// Executes the orders from this socket until the client closes it; then returns.
void work_at(Descriptor socket, const TaskTable& tasks, const ClientLoss& at_loss);

}  // namespace lockstep::pool
