// The client's record of a call, which its futures read.
#pragma once

#include <any>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/pool/future.h"

namespace lockstep::pool {

class Dispatcher;

/// Notified when any of several calls ends.
struct Bell {
  std::mutex mutex;
  std::condition_variable rung;
  uint64_t count = 0;
};

/// Any thread may call any member.
class CallRecord {
 public:
  /// handler: the thread that handles the values of the call's DataQueue; none if it has no queue.
  CallRecord(std::weak_ptr<Dispatcher> pool, int64_t number, std::thread::id handler)
      : pool_(std::move(pool)), number_(number), handler_(handler) {}

  void start();
  void finish(std::vector<std::any> results);
  void fail(Error error);
  void end_cancelled(Error error);

  FutureState state() const;
  std::optional<Error> error() const;
  /// These ask the pool, if it still exists.
  void cancel() const;
  void ask_to_stop() const;
  void say(std::string word) const;
  /// Throws if the calling thread would wait for itself.
  void check_may_wait() const;
  bool wait(std::optional<std::chrono::milliseconds> timeout) const;
  const std::vector<std::any>& results() const;

  /// When the call ended; nothing if it has not ended or its end was taken before.
  std::optional<std::chrono::steady_clock::time_point> untaken_end() const;
  bool taken() const;
  /// True for the first caller.
  bool take();
  void ring_at_end(const std::shared_ptr<Bell>& bell);

 private:
  void end(FutureState state, std::vector<std::any> results, std::optional<Error> error);

  const std::weak_ptr<Dispatcher> pool_;
  const int64_t number_;
  const std::thread::id handler_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  FutureState state_ = FutureState::pending;
  std::vector<std::any> results_;
  std::optional<Error> error_;
  std::chrono::steady_clock::time_point ended_at_;
  bool taken_ = false;
  std::vector<std::weak_ptr<Bell>> bells_;  // of those who still wait
};

}  // namespace lockstep::pool
