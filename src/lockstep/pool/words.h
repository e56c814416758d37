// What a client says to a task while that runs.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

namespace lockstep::pool {

/// In the order in which they were said. Any thread may call any member.
class Words {
 public:
  void put(std::string word) {
    const std::lock_guard lock(mutex_);
    words_.push_back(std::move(word));
    changed_.notify_all();
  }
  /// Waits for the next one; nothing after a stop.
  std::optional<std::string> next(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait(lock, stop, [&] { return !words_.empty(); })) return std::nullopt;
    std::string word = std::move(words_.front());
    words_.pop_front();
    return word;
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::string> words_;
};

}  // namespace lockstep::pool
