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

/// What a group of threads shares. A group of one is a true group: its barriers return at once.
class ThreadGroup {
 public:
  explicit ThreadGroup(int64_t size) : size_(size) {}
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;

  int64_t size() const { return size_; }

  /// Returns when all workers are here: what they wrote before is then visible to all. Spins for 20 us, then sleeps.
  /// Throws cancelled when a worker has failed.
  void barrier() { barrier([] {}); }

  /// The same; whoever comes last runs `work` before the others go on: once, on one thread, while the others stand still. What it throws is
  /// thrown there, and cancelled in the others.
  void barrier(const std::function<void()>& work);

  /// The first failure of a worker ends every barrier; later ones are dropped.
  void fail(std::exception_ptr error);

  /// Runs `work(share)` on one thread per worker and returns when all have ended. Rethrows the first failure.
  void run(const std::function<void(Share)>& work);

 private:
  const int64_t size_;
  std::atomic<int64_t> arrived_{0};
  std::atomic<uint64_t> generation_{0};
  std::atomic<int64_t> sleepers_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::exception_ptr error_;
};

}  // namespace lockstep::comm
