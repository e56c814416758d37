#include "lockstep/pool/data_queue.h"

#include "lockstep/device/failure.h"
#include "lockstep/pool/internal/queue_core.h"

namespace lockstep::pool {

AnyDataQueue::AnyDataQueue(DataQueueOptions options, std::function<void(const Packet&)> handle)
    : core_(std::make_shared<QueueCore>(options.capacity, std::move(handle))) {
  if (options.capacity < 1)
    throw Error(ErrorCode::invalid_option,
                "a DataQueue cannot have a capacity of " + std::to_string(options.capacity), "1 or more");
}

QueueCore::QueueCore(int64_t capacity, std::function<void(const Packet&)> handle)
    : capacity_(capacity),
      handle_(std::make_shared<const std::function<void(const Packet&)>>(std::move(handle))),
      thread_([items = items_] { serve(*items); }) {}

QueueCore::~QueueCore() {
  {
    const std::lock_guard lock(items_->mutex);
    items_->closed = true;
    items_->changed.notify_all();
  }
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void QueueCore::push(std::function<void()> item) {
  const std::lock_guard lock(items_->mutex);
  items_->waiting.push_back(std::move(item));
  items_->changed.notify_all();
}

void QueueCore::put(std::shared_ptr<QueueUse> use, Packet packet, std::function<void()> handled) {
  push([use = std::move(use), packet = std::move(packet), handled = std::move(handled), handle = handle_] {
    try {
      if (!use->error) (*handle)(packet);
    } catch (...) {
      use->error = device::error_of(std::current_exception());
      use->error->add_context("in the handler of a DataQueue");
    }
    handled();
  });
}

void QueueCore::after(std::function<void()> then) { push(std::move(then)); }

void check_is_not_handler(std::thread::id handler) {
  if (handler != std::this_thread::get_id()) return;
  throw Error(
      ErrorCode::invalid_option,
      "the handler of a DataQueue cannot wait for a call of its own queue, which ends after the handler",
      "start the call with another queue or with none, or wait for it outside of the handler");
}

void QueueCore::serve(Items& items) {
  while (true) {
    std::unique_lock lock(items.mutex);
    items.changed.wait(lock, [&] { return items.closed || !items.waiting.empty(); });
    if (items.waiting.empty()) return;
    const auto item = std::move(items.waiting.front());
    items.waiting.pop_front();
    lock.unlock();
    item();
  }
}

}  // namespace lockstep::pool
