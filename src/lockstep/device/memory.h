// How the process manages its memory.
#pragma once

#include <cstdint>

namespace lockstep::device {

/// Makes the allocator keep freed pages. A training step frees and allocates the same megabytes again and
/// again; returning them to the kernel each time costs a tenth of the step, and 40 % if several threads do
/// it. Holds for the whole process, from the first call on; best called before there are threads. Any thread.
/// With jemalloc, memory that a thread frees is its own again. With glibc's allocator any thread gets it, out
/// of the caches of another core: a step of two workers on small images then takes a tenth longer.
void keep_freed_memory();

/// Returns freed pages that the allocator keeps to the kernel, as far as they are contiguous. Takes a few
/// milliseconds; any thread.
void give_freed_memory_back();

/// The same for what this thread has freed and no other thread gets; with glibc's allocator others get it,
/// and nothing is returned.
void give_freed_memory_of_thread_back();

/// The peak memory of this process, in bytes.
int64_t peak_memory_bytes();

/// Page faults of this process so far (minor and major).
int64_t page_faults();

}  // namespace lockstep::device
