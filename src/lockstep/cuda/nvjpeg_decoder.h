// device::JpegDecoder by NVIDIA's nvJPEG. The library is opened at the first call, so the plug-in is of use
// without it too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/device/jpeg_decoder.h"

namespace lockstep::cuda {

/// On these GPUs in turn, which are all of `kind`; the same object for the same GPUs, never freed. Any
/// thread. Throws std::runtime_error where the plug-in was built without nvJPEG, or the library is not there
/// or refuses.
const device::JpegDecoder& nvjpeg_decoder(const std::vector<int64_t>& gpus, const std::string& kind);

}  // namespace lockstep::cuda
