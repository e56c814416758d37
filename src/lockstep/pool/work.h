// The work of a call, without its types.
#pragma once

#include <any>
#include <functional>
#include <string>

#include "lockstep/pool/packet.h"

namespace lockstep::pool {

class Worker;

/// The same for all ranks of a call.
struct Work {
  std::string name;  ///< the task's, by which another process finds it; of a lambda, for messages
  Packet input;      ///< the task's input
  std::function<std::any(Worker&, const Packet& input)> run;  ///< in this process
  bool on_gpus = false;                                       ///< only workers that have a GPU take part
  bool is_task = false;       ///< false for a lambda, which no other process can find
  bool copies_input = false;  ///< the caller does not wait, and may change the tensors of the input
};

}  // namespace lockstep::pool
