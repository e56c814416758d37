#include "lockstep/base/stop_scope.h"

#include <condition_variable>
#include <mutex>
#include <utility>

namespace lockstep {
namespace {

thread_local std::stop_token current;

}  // namespace

StopScope::StopScope(std::stop_token stop) : before_(std::exchange(current, std::move(stop))) {}

StopScope::~StopScope() { current = std::move(before_); }

std::stop_token current_stop() { return current; }

bool sleep_unless_stopped(std::chrono::milliseconds time) {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock lock(mutex);
  changed.wait_for(lock, current, time, [] { return false; });
  return !current.stop_requested();
}

}  // namespace lockstep
