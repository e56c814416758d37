// The main of a program that trains on pools: pool::run (pool/run.h) with the task by which a session's fit,
// predict and layer_outputs use processes.
//
//   int main(int argc, char** argv) { return lockstep::run(argc, argv, {digits_task}, client); }
#pragma once

#include <concepts>
#include <functional>
#include <string_view>
#include <type_traits>

#include "lockstep/nn/module.h"
#include "lockstep/pool/session.h"
#include "lockstep/pool/task.h"
#include "lockstep/train/tasks/on_processes.h"

namespace lockstep::train {

/// The workers' part of a session's fit, predict and layer_outputs (on_pool.h).
ProcessAnswer do_builtin_order(pool::Worker& worker, const ProcessOrder& order);
inline constexpr auto kOrderTask = pool::task<do_builtin_order>("lockstep");

/// See run.
int run_program(int argc, char** argv, pool::TaskTable tasks,
                const std::function<int(pool::Session&)>& client);

/// Runs as a worker if the program was started as one; otherwise calls client(session), an int or void
/// function, and returns the exit status. In all else as pool::run.
template <std::invocable<pool::Session&> Client>
int run(int argc, char** argv, const pool::TaskTable& tasks, Client client) {
  return train::run_program(argc, argv, tasks, [&](pool::Session& session) {
    if constexpr (std::is_void_v<std::invoke_result_t<Client&, pool::Session&>>) {
      client(session);
      return 0;
    } else {
      return client(session);
    }
  });
}

namespace run_detail {

template <auto make>
ProcessAnswer do_order_with(pool::Worker& worker, const ProcessOrder& order) {
  return do_order(worker, order, nn::network<make>(order.network.name));
}

}  // namespace run_detail

/// For the list of tasks: lets a session's pool of processes train a network that is a C++ module,
/// nn::network<make>(name). A function cannot be sent to a process, so the network is found by its name.
template <auto make>
constexpr auto network_task(std::string_view name) {
  return pool::task<run_detail::do_order_with<make>>(name);
}

}  // namespace lockstep::train
