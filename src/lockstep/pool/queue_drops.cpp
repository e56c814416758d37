#include "lockstep/pool/internal/queue_drops.h"

#include <utility>

namespace lockstep::pool {

QueueDrops::QueueDrops() {
  thread_ = std::thread([held = held_] {
    while (std::shared_ptr<QueueCore> queue = held->queues.pop().value_or(nullptr)) {
      const std::thread::id handler = queue->thread();
      queue.reset();
      const std::lock_guard lock(held->mutex);
      held->handlers.erase(held->handlers.find(handler));
    }
  });
}

QueueDrops::~QueueDrops() {
  held_->queues.close();
  if (waits_for_this_thread()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void QueueDrops::take(std::shared_ptr<QueueCore> queue) {
  {
    const std::lock_guard lock(held_->mutex);
    held_->handlers.insert(queue->thread());
  }
  held_->queues.push(std::move(queue));
}

bool QueueDrops::waits_for_this_thread() const {
  const std::thread::id here = std::this_thread::get_id();
  const std::lock_guard lock(held_->mutex);
  return here == thread_.get_id() || held_->handlers.contains(here);
}

}  // namespace lockstep::pool
