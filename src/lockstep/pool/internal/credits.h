// How many values a sender may still send before some are handled.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stop_token>

#include "lockstep/base/error.h"

namespace lockstep::pool {

/// Any thread may call any member.
class Credits {
 public:
  explicit Credits(int64_t count) : count_(count) {}

  /// Waits for one. Throws cancelled after a stop.
  void take(std::stop_token stop) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait(lock, stop, [&] { return count_ > 0; }) || stop.stop_requested()) {
      throw Error(ErrorCode::cancelled, "a value was to be sent to the DataQueue after the call was stopped");
    }
    --count_;
  }
  void give(int64_t count) {
    const std::lock_guard lock(mutex_);
    count_ += count;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  int64_t count_;
};

}  // namespace lockstep::pool
