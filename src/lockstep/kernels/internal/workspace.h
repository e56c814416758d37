// Scratch memory that kernels reuse from call to call.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::kernels {

/// Buffers of one kernel call. Their memory belongs to the calling thread, which keeps it; their contents are
/// undefined. A thread may use one Workspace at a time.
class Workspace {
 public:
  /// The next buffer, aligned to a cache line.
  float* take(int64_t floats);

 private:
  size_t next_ = 0;
};

}  // namespace lockstep::kernels
