#include "lockstep/device/memory.h"

#include <malloc.h>
#include <sys/resource.h>

namespace lockstep::device {

void keep_freed_memory() {
  [[maybe_unused]] static const bool kept = [] {
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 2147483647);
    mallopt(M_TOP_PAD, 16 << 20);
    mallopt(M_ARENA_MAX, 1);  // arenas of threads are small, and return memory that does not fit
    return true;
  }();
}

void give_freed_memory_back() { malloc_trim(0); }

int64_t peak_memory_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

int64_t page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

}  // namespace lockstep::device
