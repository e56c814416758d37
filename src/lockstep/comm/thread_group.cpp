#include "lockstep/comm/thread_group.h"

#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::comm {
namespace {

constexpr std::chrono::microseconds kSpin{20};

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void ThreadGroup::barrier(const std::function<void()>& work) {
  const uint64_t mine = generation_.load();
  const auto over = [&] { return generation_.load() != mine || failed_.load(); };
  if (!failed_.load() && arrived_.fetch_add(1) + 1 == size_) {
    arrived_.store(0);
    try {
      work();
    } catch (...) {
      fail(std::current_exception());
      throw;
    }
    generation_.store(mine + 1);
    // Whoever is counted as a sleeper after this look sees the new generation before it sleeps.
    if (sleepers_.load() == 0) return;
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
    return;
  }
  for (const auto until = std::chrono::steady_clock::now() + kSpin; !over() && std::chrono::steady_clock::now() < until;) pause_cpu();
  if (!over()) {
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1);
    changed_.wait(lock, over);
    sleepers_.fetch_sub(1);
  }
  if (generation_.load() == mine) throw Error(ErrorCode::cancelled, "another worker failed");
}

Error thread_start_error(const std::system_error& error, size_t thread, int64_t of) {
  return {ErrorCode::cluster, "cannot start thread " + std::to_string(thread) + " of " + std::to_string(of) + ": " + error.what(), "use fewer workers, or raise the limit of processes (ulimit -u)"};
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
      // Those that have begun must not wait for it.
      fail(std::make_exception_ptr(thread_start_error(error, threads.size() + 1, size_)));
    }
  }
  if (error_) std::rethrow_exception(error_);
}

}  // namespace lockstep::comm
