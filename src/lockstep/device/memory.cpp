#include "lockstep/device/memory.h"

#include <cstddef>
#include <string>

#include <malloc.h>
#include <sys/resource.h>
#include <sys/types.h>

extern "C" {
// jemalloc's, and null in a program that has another allocator, for example one with sanitizers.
[[gnu::weak]] int mallctl(const char* name, void* old, size_t* old_size, void* value, size_t value_size);

// What jemalloc reads when the program starts. By default it keeps the largest blocks of all threads in one
// place, and returns them at once. Weak: a program may have its own.
[[gnu::weak]] extern const char* malloc_conf;
const char* malloc_conf = "oversize_threshold:0";
}

namespace lockstep::device {
namespace {

unsigned arena_number(const char* name) {
  unsigned number = 0;
  size_t size = sizeof number;
  mallctl(name, &number, &size, nullptr, 0);
  return number;
}

void purge_arena(unsigned arena) {
  mallctl(("arena." + std::to_string(arena) + ".purge").c_str(), nullptr, nullptr, nullptr, 0);
}

// Of jemalloc: arenas that exist, and those that threads will get.
void keep_pages_of_arenas() {
  ssize_t never = -1;
  const unsigned arenas = arena_number("arenas.narenas");
  for (const char* pages : {"dirty", "muzzy"}) {
    const std::string decay = std::string(pages) + "_decay_ms";
    mallctl(("arenas." + decay).c_str(), nullptr, nullptr, &never, sizeof never);
    for (unsigned arena = 0; arena < arenas; ++arena)
      mallctl(("arena." + std::to_string(arena) + "." + decay).c_str(), nullptr, nullptr, &never,
              sizeof never);
  }
}

void keep_pages_of_glibc() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 2147483647);
  mallopt(M_TOP_PAD, 16 << 20);
  mallopt(M_ARENA_MAX, 1);  // arenas of threads are small, and return memory that does not fit
}

}  // namespace

void keep_freed_memory() {
  [[maybe_unused]] static const bool kept = [] {
    mallctl != nullptr ? keep_pages_of_arenas() : keep_pages_of_glibc();
    return true;
  }();
}

void give_freed_memory_back() {
  if (mallctl == nullptr) {
    malloc_trim(0);
    return;
  }
  constexpr unsigned kAllArenas = 4096;  // MALLCTL_ARENAS_ALL
  purge_arena(kAllArenas);
}

void give_freed_memory_of_thread_back() {
  if (mallctl != nullptr) purge_arena(arena_number("thread.arena"));
}

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
