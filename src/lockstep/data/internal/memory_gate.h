// Limits how much memory threads use at the same time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace lockstep::data {

/// Admits threads, in order of arrival, while their total memory is within the budget. A thread that needs
/// more than the whole budget is admitted alone. Any thread may call any member.
class MemoryGate {
 public:
  explicit MemoryGate(int64_t budget) : budget_(budget) {}

  /// Waits until `bytes` are free. A thread that is already inside must not call it: it would wait for
  /// itself.
  void enter(int64_t bytes) {
    std::unique_lock lock(mutex_);
    const uint64_t turn = turns_++;
    changed_.wait(lock, [&] { return turn == next_turn_ && (taken_ == 0 || taken_ + bytes <= budget_); });
    taken_ += bytes;
    ++next_turn_;
    changed_.notify_all();
  }

  void leave(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    taken_ -= bytes;
    changed_.notify_all();
  }

 private:
  const int64_t budget_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t taken_ = 0;
  uint64_t turns_ = 0;      // next number to hand out
  uint64_t next_turn_ = 0;  // next number to admit
};

/// While it exists, its thread is inside with this many bytes.
class MemoryPass {
 public:
  MemoryPass(MemoryGate& gate, int64_t bytes) : gate_(gate), bytes_(bytes) { gate_.enter(bytes_); }
  ~MemoryPass() { gate_.leave(bytes_); }
  MemoryPass(const MemoryPass&) = delete;
  MemoryPass& operator=(const MemoryPass&) = delete;

 private:
  MemoryGate& gate_;
  int64_t bytes_;
};

}  // namespace lockstep::data
