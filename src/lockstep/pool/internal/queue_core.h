// The client's end of a DataQueue: values are handled on one thread, in order.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/pool/data_queue.h"

namespace lockstep::pool {

/// One call's use of a queue. Only the queue's thread reads `error`.
struct QueueUse {
  std::optional<Error> error;  ///< the first error of the handler; the call's later values are dropped
};

/// Any thread may call any member. No member waits for a worker: senders limit themselves (Credits).
class QueueCore {
 public:
  QueueCore(int64_t capacity, std::function<void(const Packet&)> handle);
  QueueCore(const QueueCore&) = delete;
  QueueCore& operator=(const QueueCore&) = delete;
  /// Waits until the remaining values are handled. On the queue's own thread, where a handler has released
  /// the last use, it returns at once, and the values are handled after it.
  ~QueueCore();

  int64_t capacity() const { return capacity_; }
  /// The thread that calls the handler.
  std::thread::id thread() const { return thread_.get_id(); }
  /// Passes a value to the handler, then calls `handled`.
  void put(std::shared_ptr<QueueUse> use, Packet packet, std::function<void()> handled);
  /// Calls `then` after all values that were put before.
  void after(std::function<void()> then);

 private:
  /// Shared with the thread, because a handler may hold the last use of the queue.
  struct Items {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> waiting;
    bool closed = false;
  };
  static void serve(Items& items);
  void push(std::function<void()> item);

  const int64_t capacity_;
  const std::shared_ptr<const std::function<void(const Packet&)>> handle_;
  const std::shared_ptr<Items> items_ = std::make_shared<Items>();
  std::thread thread_;
};

/// Throws invalid_option on the thread `handler`, which handles the values of a queue: a call that names the
/// queue ends after it, so it cannot wait for that call.
void check_is_not_handler(std::thread::id handler);

}  // namespace lockstep::pool
