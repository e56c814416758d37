#include "lockstep/device/gpu_plug_in.h"

#include "lockstep/base/plug_in.h"

namespace lockstep::device {

std::string how_to_get_gpu_plug_in() {
  const std::string kind = package_kind();
  if (kind.empty())
    return "build with the CUDA 13 toolkit, or with scripts/setup --gpu: configuring says whether it was "
           "found";
  if (kind == "wheel")
    return "this wheel was made without it; scripts/setup --gpu, scripts/build and scripts/package wheel "
           "make "
           "one that has it";
  return "this " + kind + " is for CPUs; the Python wheel of Lockstep can have it (docs/packages.md)";
}

}  // namespace lockstep::device
