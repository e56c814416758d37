#include "lockstep/comm/thread_group.h"
#include "lockstep/comm/internal/spin.h"

#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::comm {
namespace {

constexpr int kLooks = 32;  // between two looks at the clock, which takes as long as several looks

Error another_failed() { return {ErrorCode::cancelled, "another worker failed"}; }

}  // namespace

void ThreadGroup::barrier() {
  if (failed_.load()) throw another_failed();
  const int64_t before = arrived_.fetch_add(1);
  const int64_t all = (before / size_ + 1) * size_;
  if (before + 1 == all) return wake();
  wait_until([&] { return arrived_.load() >= all; });
}

void ThreadGroup::barrier(const std::function<void()>& work) {
  if (failed_.load()) throw another_failed();
  const int64_t worked = worked_.load();  // no thread changes it before this worker has arrived
  if ((arrived_.fetch_add(1) + 1) % size_ != 0) return wait_until([&] { return worked_.load() != worked; });
  try {
    work();
  } catch (...) {
    fail(std::current_exception());
    throw;
  }
  worked_.store(worked + 1);
  wake();
}

template <class Over>
void ThreadGroup::wait_until(const Over& over) {
  const auto ended = [&] { return over() || failed_.load(); };
  for (const auto until = std::chrono::steady_clock::now() + kSpin;
       !ended() && std::chrono::steady_clock::now() < until;) {
    for (int look = 0; look < kLooks && !ended(); ++look) pause_cpu();
  }
  if (!ended()) {
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1);
    changed_.wait(lock, ended);
    sleepers_.fetch_sub(1);
  }
  if (!over()) throw another_failed();
}

// A thread that is counted as a sleeper after this look sees what ends the barrier before it sleeps.
void ThreadGroup::wake() {
  if (sleepers_.load() == 0) return;
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

Error thread_start_error(const std::system_error& error, size_t thread, int64_t of) {
  return {ErrorCode::cluster,
          "cannot start thread " + std::to_string(thread) + " of " + std::to_string(of) + ": " + error.what(),
          "use fewer workers, or raise the limit of processes (ulimit -u)"};
}

void ThreadGroup::fail(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
  failed_.store(true, std::memory_order_release);
  changed_.notify_all();
}

void ThreadGroup::run(const std::function<void(Share)>& work) {
  {
    std::vector<std::jthread> threads;
    try {
      for (int64_t rank = 0; rank < size_; ++rank) {
        threads.emplace_back([&, rank] {
          try {
            work({rank, size_});
          } catch (...) {
            fail(std::current_exception());
          }
        });
      }
    } catch (const std::system_error& error) {
      // Threads that have begun must not wait for it.
      fail(std::make_exception_ptr(thread_start_error(error, threads.size() + 1, size_)));
    }
  }
  if (error_) std::rethrow_exception(error_);
}

}  // namespace lockstep::comm
