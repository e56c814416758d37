// Scratch memory that kernels reuse from call to call.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::kernels {

/// Buffers of one kernel call. Their memory belongs to the calling thread, which keeps it; their contents are
/// undefined. Workspaces of a thread nest: only the innermost one may take more.
class Workspace {
 public:
  Workspace();
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  /// The next buffer, aligned to a cache line.
  float* take(int64_t floats);

 private:
  size_t outer_;  // buffers in use outside
};

}  // namespace lockstep::kernels
