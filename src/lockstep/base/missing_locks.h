// File systems without locks: some network ones, as they are mounted.
#pragma once

#include <cerrno>

namespace lockstep {

/// Whether flock or fcntl failed with this errno because the file system has no locks.
inline bool is_without_locks(int reason) {
  return reason == ENOSYS || reason == EOPNOTSUPP || reason == ENOLCK;
}

}  // namespace lockstep
