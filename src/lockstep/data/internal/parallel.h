// A loop over samples on a few threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep::data {

/// Calls work(i) for i in 0..count-1 on up to `threads` threads, including the caller. After an exception no
/// new calls start, and one of the exceptions is rethrown.
template <class Work>
void for_each_index(int64_t count, int64_t threads, Work&& work) {
  constexpr int64_t kChunk = 16;
  std::atomic<int64_t> next{0};
  std::exception_ptr error;
  std::mutex error_mutex;
  const auto run = [&] {
    try {
      for (int64_t begin = next.fetch_add(kChunk); begin < count; begin = next.fetch_add(kChunk)) {
        for (int64_t i = begin; i < begin + kChunk && i < count; ++i) work(i);
      }
    } catch (...) {
      next.store(count);
      const std::lock_guard lock(error_mutex);
      if (!error) error = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (int64_t i = 1; i < threads && i * kChunk < count; ++i) helpers.emplace_back(run);
    run();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace lockstep::data
