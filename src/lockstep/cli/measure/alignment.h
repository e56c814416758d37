// Lets threads start a measurement at the same moment.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

namespace lockstep::cli::measure {

/// Releases a fixed number of threads at once. They spin until the last one has arrived: a sleeping thread
/// would wake up tens of microseconds late.
class Alignment {
 public:
  explicit Alignment(int64_t threads) : threads_(threads) {}

  void wait() {
    const int64_t round = arrived_.fetch_add(1) / threads_;
    while (arrived_.load() < (round + 1) * threads_) {
    }
  }

 private:
  const int64_t threads_;
  std::atomic<int64_t> arrived_{0};
};

/// Seconds that `work` takes.
template <class Work>
double seconds_of(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace lockstep::cli::measure
