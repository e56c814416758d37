// Trials of one process that wait until there is memory for them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <stop_token>
#include <utility>

namespace lockstep::cli {

/// Bytes.
struct MemoryNeed {
  double own = 0;
  double images = 0;  ///< those that it opens, and shares with others that have the same
};

/// Of one memory: the machine's or a GPU's. Any thread.
class MemoryGate {
 public:
  /// kept_images: bytes of the images that all trials keep now
  MemoryGate(double budget, std::function<double()> kept_images)
      : budget_(budget), kept_images_(std::move(kept_images)) {}

  /// Waits until the need fits beside what is inside, or nothing is. Returns false if it was stopped
  /// meanwhile.
  bool enter(const MemoryNeed& need, const std::stop_token& stop);
  void leave(const MemoryNeed& need);

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  const double budget_;
  const std::function<double()> kept_images_;
  double used_ = 0;  // without images
  int64_t inside_ = 0;
};

}  // namespace lockstep::cli
