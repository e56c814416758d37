#include "lockstep/pool/worker.h"

namespace lockstep::pool {
namespace {

thread_local const Worker* current_worker = nullptr;

}  // namespace

const Worker* Worker::current() { return current_worker; }
Worker::Scope::Scope(const Worker& worker) { current_worker = &worker; }
Worker::Scope::~Scope() { current_worker = nullptr; }

void Worker::deliver(Packet packet) {
  if (!membership_.deliver) {
    throw Error(ErrorCode::invalid_option, "this call has no DataQueue to send to",
                "name one where the task is started, as in pool.spmd(task, input, {.queue = queue})");
  }
  membership_.deliver(std::move(packet));
}

}  // namespace lockstep::pool
