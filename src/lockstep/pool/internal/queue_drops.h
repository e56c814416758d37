// Where a pool releases the queues of calls that have ended.
#pragma once

#include <limits>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "lockstep/base/bounded_queue.h"
#include "lockstep/pool/internal/queue_core.h"

namespace lockstep::pool {

/// Releases queues on a thread of its own: releasing the last use of a queue waits for its handler, and that
/// must not keep a worker from its work.
class QueueDrops {
 public:
  QueueDrops();
  /// Waits until all are released, unless a handler of one of them calls it: then the thread ends by itself.
  ~QueueDrops();
  void take(std::shared_ptr<QueueCore> queue);

 private:
  /// Shared with the thread, because a handler may hold the last use of the pool.
  struct Held {
    std::mutex mutex;
    std::multiset<std::thread::id> handlers;  ///< threads of the queues that are not released yet
    BoundedQueue<std::shared_ptr<QueueCore>> queues{std::numeric_limits<size_t>::max()};
  };
  bool waits_for_this_thread() const;

  const std::shared_ptr<Held> held_ = std::make_shared<Held>();
  std::thread thread_;
};

}  // namespace lockstep::pool
