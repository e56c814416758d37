// How the process keeps its memory.
#pragma once

#include <cstdint>

namespace lockstep::device {

/// Makes the allocator keep freed pages: a training step frees and takes the same megabytes again and again,
/// and giving them back to the kernel each time costs a tenth of the step, and 40 % where several threads do
/// it. For the whole process, and from its first call on; best before it has threads. Any thread.
void keep_freed_memory();

/// Gives what the allocator keeps of freed pages back to the kernel, as far as nothing lies between. A few
/// milliseconds; any thread.
void give_freed_memory_back();

/// The most memory this process has held, in bytes.
int64_t peak_memory_bytes();

/// Page faults of this process so far (minor and major).
int64_t page_faults();

}  // namespace lockstep::device
