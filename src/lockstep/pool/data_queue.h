// Values that any worker sends while its task runs, and a handler for them in the client.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "lockstep/pool/packet.h"

namespace lockstep::pool {

class QueueCore;

/// Options of a DataQueue.
struct DataQueueOptions {
  int64_t capacity = 64;  ///< maximum number of values of one rank on their way; further sends wait
};

/// A queue of any type, as a call accepts it.
class AnyDataQueue {
 public:
  AnyDataQueue() = default;
  explicit operator bool() const { return core_ != nullptr; }
  const std::shared_ptr<QueueCore>& core() const { return core_; }

 protected:
  AnyDataQueue(DataQueueOptions options, std::function<void(const Packet&)> handle);
  std::shared_ptr<QueueCore> core_;
};

/// The handler runs on the queue's own thread, one value at a time. Values of one rank arrive in the order in
/// which they were sent; those of different ranks as they come. A call that names the queue ends after all
/// its values have been handled, so what the handler wrote can be read then. If the handler throws, the call
/// that sent the value fails, and the rest of that call's values are dropped. The handler may start calls,
/// but to wait for a call that names its own queue throws invalid_option there, unless the call has ended. A
/// handler that waits without a limit for another call may wait forever: if all workers of the pool are in
/// Worker::send because this queue is full, none of them can begin that call. Use AnyFuture::wait with a
/// limit, or let the client wait. A handle: copies refer to one queue. Its thread ends with the last copy and
/// the last call that uses it.
///
/// DataQueue throws invalid_option for a capacity under 1.
template <Described Value>
class DataQueue : public AnyDataQueue {
 public:
  using Handler = std::function<void(const Value&)>;
  explicit DataQueue(Handler handler) : DataQueue({}, std::move(handler)) {}
  DataQueue(DataQueueOptions options, Handler handler)
      : AnyDataQueue(options, [handler = std::move(handler)](const Packet& packet) {
          handler(unpack<Value>(packet));
        }) {}
};

}  // namespace lockstep::pool
