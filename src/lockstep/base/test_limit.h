// A process that can allocate little more memory than it has, for tests of what happens when the machine
// gives no more.
#pragma once

#include <fstream>
#include <stdexcept>

#include <sys/resource.h>
#include <unistd.h>

namespace lockstep::test {

/// Sanitizers have their own allocator and end the process when they get no memory.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// While it lives, the process's address space can grow by `more_bytes` only: enough for the stacks of some
/// threads (ulimit -s, 8 MB), not of many. Unlike the limit of threads, this one also holds for root.
class AddressSpaceLimit {
 public:
  explicit AddressSpaceLimit(rlim_t more_bytes) {
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    if (pages == 0 || ::getrlimit(RLIMIT_AS, &before_) != 0)
      throw std::runtime_error("cannot tell the process's address space");
    set({pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + more_bytes, before_.rlim_max});
  }
  AddressSpaceLimit(const AddressSpaceLimit&) = delete;
  AddressSpaceLimit& operator=(const AddressSpaceLimit&) = delete;
  ~AddressSpaceLimit() { ::setrlimit(RLIMIT_AS, &before_); }

 private:
  static void set(const rlimit& limit) {
    if (::setrlimit(RLIMIT_AS, &limit) != 0)
      throw std::runtime_error("cannot limit the process's address space");
  }
  rlimit before_{};
};

}  // namespace lockstep::test
