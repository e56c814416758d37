#include "lockstep/cli/memory_gate.h"

#include <algorithm>

namespace lockstep::cli {

bool MemoryGate::enter(const MemoryNeed& need, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  const auto fits = [&] {
    return inside_ == 0 || used_ + need.own + std::max(kept_images_(), need.images) <= budget_;
  };
  if (!changed_.wait(lock, stop, fits)) return false;
  used_ += need.own;
  ++inside_;
  return true;
}

void MemoryGate::leave(const MemoryNeed& need) {
  const std::lock_guard lock(mutex_);
  used_ = --inside_ == 0 ? 0 : used_ - need.own;
  changed_.notify_all();
}

}  // namespace lockstep::cli
