// A worker of a pool on a cluster, as the client's connection sees it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "lockstep/base/json.h"
#include "lockstep/pool/internal/pipe_stream.h"
#include "lockstep/pool/worker_info.h"

namespace lockstep::pool {

/// How one start of a worker ended. Any thread may call any member.
class RemoteEnd {
 public:
  void set(const std::string& how) {
    const std::lock_guard lock(mutex_);
    if (how_.empty()) how_ = how;
    changed_.notify_all();
  }
  /// Waits shortly for one that is ending.
  std::string wait() {
    constexpr std::chrono::milliseconds kMost{500};
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kMost, [&] { return !how_.empty(); });
    return how_.empty() ? "does not answer" : how_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string how_;
};

struct ClusterLane {
  bool is_here = false;
  bool is_at_head = false;  ///< on the head's machine
  WorkerInfo info{};
  Json meeting{};
  uint32_t start = 0;
  std::optional<PipeStream> worker{};  ///< to the crew; none: it is over
  std::optional<PipeStream> errors{};
  std::shared_ptr<RemoteEnd> end{};
  bool is_ending = false;  ///< once all is passed on
};

}  // namespace lockstep::pool
