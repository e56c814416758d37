#include "lockstep/cli/memory_gate.h"

namespace lockstep::cli {

bool MemoryGate::enter(const MemoryNeed& need, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  const auto fits = [&] { return inside_ == 0 || used_ + added_by(need) <= budget_; };
  if (!changed_.wait(lock, stop, fits)) return false;
  used_ += added_by(need);
  for (const auto& [key, bytes] : need.images)
    ++images_.try_emplace(key, SharedImages{bytes}).first->second.users;
  ++inside_;
  return true;
}

void MemoryGate::leave(const MemoryNeed& need) {
  const std::lock_guard lock(mutex_);
  used_ -= need.own;
  for (const auto& [key, bytes] : need.images) {
    const auto set = images_.find(key);
    if (--set->second.users > 0) continue;
    used_ -= set->second.bytes;
    images_.erase(set);
  }
  if (--inside_ == 0) used_ = 0;  // without rounding errors
  changed_.notify_all();
}

double MemoryGate::added_by(const MemoryNeed& need) const {
  double added = need.own;
  for (const auto& [key, bytes] : need.images) added += images_.contains(key) ? 0 : bytes;
  return added;
}

}  // namespace lockstep::cli
