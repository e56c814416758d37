#include "lockstep/sweep/internal/claims.h"

#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"

namespace lockstep::sweep {
namespace {

void set_size(const jobs::FileLock& lock, off_t size, const std::filesystem::path& file) {
  if (::ftruncate(lock.descriptor(), size) != 0) throw errno_error(errno, "write", file.string());
}

}  // namespace

Claims::Claims(std::filesystem::path folder) : folder_(std::move(folder)) { make_folders(folder_); }

std::filesystem::path Claims::file_of(const Segment& segment) const {
  return folder_ / (std::to_string(segment.trial) + "-" + std::to_string(segment.until));
}

Claim Claims::take(const Segment& segment) {
  const std::filesystem::path file = file_of(segment);
  auto lock = jobs::FileLock::try_take(file);
  if (!lock) return Claim::other;
  const bool after_death = ::lseek(lock->descriptor(), 0, SEEK_END) > 0;
  set_size(*lock, 1, file);
  held_.emplace(segment, std::move(*lock));
  return after_death ? Claim::after_death : Claim::taken;
}

void Claims::release(const Segment& segment) {
  const auto held = held_.find(segment);
  if (held == held_.end()) return;
  set_size(held->second, 0, file_of(segment));
  held_.erase(held);
}

}  // namespace lockstep::sweep
