// The main function of a program that has tasks but does not train on pools of processes; for training use
// train/tasks/run.h:
//
//   int main(int argc, char** argv) { return run(argc, argv, {digits_task}, client); }
#pragma once

#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "lockstep/pool/session.h"

namespace lockstep::pool {

/// See run.
int run_program(int argc, char** argv, const TaskTable& tasks, const std::function<int(Session&)>& client);

/// Becomes a worker if the program was started as one; otherwise calls client(session), an int or void
/// function, and returns the exit status. Under a launcher (torchrun, mpirun, srun, lockstep run; see
/// launch/launcher.h) rank 0 calls the client, and the ranks are the workers of its pools. What the client
/// throws is printed on standard error, and the status is 2 for what was typed, 1 for everything else.
/// Standard output is then written line by line, also to a pipe. Call it first and once: a worker must do
/// nothing else.
template <std::invocable<Session&> Client>
int run(int argc, char** argv, const TaskTable& tasks, Client client) {
  return run_program(argc, argv, tasks, [&](Session& session) {
    if constexpr (std::is_void_v<std::invoke_result_t<Client&, Session&>>) {
      client(session);
      return 0;
    } else {
      return client(session);
    }
  });
}

}  // namespace lockstep::pool
