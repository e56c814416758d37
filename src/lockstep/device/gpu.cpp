#include "lockstep/device/gpu.h"

#include <dlfcn.h>

namespace lockstep::device {
namespace {

GpuState look() {
  GpuState state;
  if (void* driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL); driver == nullptr) {
    state.note = "no NVIDIA driver on this machine";
    return state;
  }
  state.note = "this build has no CUDA plug-in";
  return state;
}

}  // namespace

const GpuState& inspect_gpus() {
  static const GpuState state = look();
  return state;
}

}  // namespace lockstep::device
