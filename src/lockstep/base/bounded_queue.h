// A first-in first-out queue between threads with a bound, a stop token and an end that can carry an error.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

namespace lockstep {

/// Any thread may call any member. After close() consumers take the remaining items, then get nothing (or the
/// error, thrown once for each call).
template <class T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  /// Waits for room. False if stopped or closed; the value is then dropped.
  bool push(T value, std::stop_token stop = {}) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait(lock, stop, [&] { return closed_ || items_.size() < capacity_; }) || closed_)
      return false;
    items_.push_back(std::move(value));
    changed_.notify_all();
    return true;
  }

  /// Waits for an item. Nothing if stopped, or closed and empty; rethrows the error given to close().
  std::optional<T> pop(std::stop_token stop = {}) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait(lock, stop, [&] { return closed_ || !items_.empty(); })) return std::nullopt;
    if (items_.empty()) {
      if (error_) std::rethrow_exception(error_);
      return std::nullopt;
    }
    T value = std::move(items_.front());
    items_.pop_front();
    changed_.notify_all();
    return value;
  }

  void close(std::exception_ptr error = nullptr) {
    const std::lock_guard lock(mutex_);
    if (!closed_) error_ = std::move(error);
    closed_ = true;
    changed_.notify_all();
  }

  size_t size() const {
    const std::lock_guard lock(mutex_);
    return items_.size();
  }

 private:
  const size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<T> items_;
  std::exception_ptr error_;
  bool closed_ = false;
};

}  // namespace lockstep
