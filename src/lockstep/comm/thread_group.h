// Workers that are threads of one process: a barrier that a failure or a stop can break.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <stop_token>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/share.h"

namespace lockstep::comm {

/// cluster: "cannot start thread 3 of 8: ...". thread is counted from 1.
[[nodiscard]] Error thread_start_error(const std::system_error& error, size_t thread, int64_t of);

/// What a group of threads shares. A group of one behaves the same: its barriers return at once.
class ThreadGroup {
 public:
  explicit ThreadGroup(int64_t size) : size_(size) {}
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;

  int64_t size() const { return size_; }

  /// Returns when all workers have called it. What they wrote before is then visible to all. Spins for 20 us,
  /// then sleeps. Throws cancelled when a worker has failed.
  void barrier();

  /// The same; the last worker to arrive runs `work` before the others continue: once, on one thread, while
  /// the others wait. What it throws is thrown there, and the others throw cancelled. Either all workers pass
  /// `work` or none.
  void barrier(const std::function<void()>& work);

  /// The first failure of a worker ends every barrier; later ones are dropped.
  void fail(std::exception_ptr error);

  /// Runs `work(share)` on one thread per worker and returns when all have ended. Rethrows the first failure.
  void run(const std::function<void(Share)>& work);

 private:
  template <class Over>
  void wait_until(const Over& over);
  void wake();

  // Waiting threads read one of the first two all the time, so each has its own cache lines (two, which
  // processors fetch together).
  static constexpr size_t kLines = 128;
  alignas(kLines) std::atomic<int64_t> arrived_{0};  // of all barriers
  alignas(kLines) std::atomic<int64_t> worked_{0};   // barriers whose work is done
  alignas(kLines) const int64_t size_;
  std::atomic<int64_t> sleepers_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::exception_ptr error_;
};

}  // namespace lockstep::comm
