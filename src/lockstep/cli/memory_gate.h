// Trials of one process that wait until there is memory for them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>

namespace lockstep::cli {

/// Bytes.
struct MemoryNeed {
  double own = 0;
  std::map<std::string, double>
      images{};  ///< of each set that it uses; a key is the same where sets are shared
};

/// Of one memory: the machine's or a GPU's. Any thread.
class MemoryGate {
 public:
  explicit MemoryGate(double budget) : budget_(budget) {}

  /// Waits until the need fits beside what is inside, or nothing is. A set of images that is inside counts
  /// once. Returns false if it was stopped meanwhile.
  bool enter(const MemoryNeed& need, const std::stop_token& stop);
  void leave(const MemoryNeed& need);

 private:
  struct SharedImages {
    double bytes = 0;
    int64_t users = 0;
  };

  double added_by(const MemoryNeed& need) const;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  const double budget_;
  double used_ = 0;
  int64_t inside_ = 0;
  std::map<std::string, SharedImages> images_;
};

}  // namespace lockstep::cli
