#include "lockstep/pool/worker.h"

namespace lockstep::pool {

void Worker::deliver(Packet packet) {
  if (!place_.deliver) {
    throw Error(ErrorCode::invalid_option, "this call has no DataQueue to send to",
                "name one where the task is started, as in pool.spmd(task, input, {.queue = queue})");
  }
  place_.deliver(std::move(packet));
}

}  // namespace lockstep::pool
