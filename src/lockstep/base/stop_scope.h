// A stop token for waits so deep in the call stack that they cannot be passed one.
#pragma once

#include <chrono>
#include <stop_token>

namespace lockstep {

/// While it lives, current_stop() on this thread returns `stop`. Scopes nest.
class StopScope {
 public:
  explicit StopScope(std::stop_token stop);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  std::stop_token before_;
};

/// The token of the innermost scope on this thread; without a scope, one that is never stopped.
std::stop_token current_stop();

/// Sleeps for this time, or until current_stop() is requested. False if it was.
bool sleep_unless_stopped(std::chrono::milliseconds time);

}  // namespace lockstep
