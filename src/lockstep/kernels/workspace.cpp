#include "lockstep/kernels/internal/workspace.h"

#include <memory>
#include <new>
#include <vector>

namespace lockstep::kernels {
namespace {

constexpr std::align_val_t kLine{64};

struct Release {
  void operator()(float* pointer) const { ::operator delete(pointer, kLine); }
};

struct Buffer {
  std::unique_ptr<float, Release> floats;
  int64_t size = 0;
};

thread_local std::vector<Buffer> buffers;
thread_local size_t buffers_in_use = 0;

}  // namespace

Workspace::Workspace() : outer_(buffers_in_use) {}

Workspace::~Workspace() { buffers_in_use = outer_; }

float* Workspace::take(int64_t floats) {
  if (buffers_in_use == buffers.size()) buffers.emplace_back();
  Buffer& buffer = buffers[buffers_in_use++];
  if (buffer.size < floats) {
    buffer.floats.reset();
    buffer.size = 0;
    buffer.floats.reset(
        static_cast<float*>(::operator new(static_cast<size_t>(floats) * sizeof(float), kLine)));
    buffer.size = floats;
  }
  return buffer.floats.get();
}

}  // namespace lockstep::kernels
