// A stop token for waits that lie too deep to be handed one.
#pragma once

#include <chrono>
#include <stop_token>

namespace lockstep {

/// While it lives, current_stop() on this thread gives `stop`. Scopes nest.
class StopScope {
 public:
  explicit StopScope(std::stop_token stop);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  std::stop_token before_;
};

/// The token of the innermost scope on this thread; one that is never stopped where there is none.
std::stop_token current_stop();

/// Sleeps so long, or until current_stop() is requested. False when it was.
bool sleep_unless_stopped(std::chrono::milliseconds time);

}  // namespace lockstep
