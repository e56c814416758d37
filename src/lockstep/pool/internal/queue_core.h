// The client's end of a DataQueue: what came is handled on one thread, in order.
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

/// One call's use of a queue. Only the queue's thread looks at `error`.
struct QueueUse {
  std::optional<Error> error;  ///< what the handler threw first; the call's later values are dropped
};

/// Any thread may call any member. Nothing here waits for a worker: senders hold back by themselves
/// (Credits).
class QueueCore {
 public:
  QueueCore(int64_t capacity, std::function<void(const Packet&)> handle);
  QueueCore(const QueueCore&) = delete;
  QueueCore& operator=(const QueueCore&) = delete;
  /// Handles what is there, then ends. Never on the queue's own thread: what that runs holds no use of the
  /// queue.
  ~QueueCore();

  int64_t capacity() const { return capacity_; }
  /// Hands a value to the handler, then calls `handled`.
  void put(std::shared_ptr<QueueUse> use, Packet packet, std::function<void()> handled);
  /// Calls `then` after all values that were put before.
  void after(std::function<void()> then);

 private:
  void serve();
  void push(std::function<void()> item);

  const int64_t capacity_;
  const std::shared_ptr<const std::function<void(const Packet&)>> handle_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> items_;
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace lockstep::pool
