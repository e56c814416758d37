// What a process does that was started as a worker.
#pragma once

#include <sys/types.h>

#include "lockstep/pool/task.h"

namespace lockstep::pool {

/// Does orders until the client closes the connection; then returns. Where the client is gone, or goes, the process ends at once.
void work_for(pid_t client, const TaskTable& tasks);

}  // namespace lockstep::pool
