// The file of the CUDA plug-in, which not every build and package has.
#pragma once

#include <string>

namespace lockstep::device {

inline constexpr const char* kGpuPlugIn = "liblockstep_cuda.so";

/// What to do where the file is missing; it depends on the package that this program is from.
std::string how_to_get_gpu_plug_in();

}  // namespace lockstep::device
