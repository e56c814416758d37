// device::JpegDecoder by NVIDIA's nvJPEG. The library is opened at the first call, so the plug-in also works
// without it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/device/jpeg_decoder.h"

namespace lockstep::cuda {

/// Decodes on these GPUs in turn; all are of `kind`. Returns the same object for the same GPUs; it is never
/// freed. Any thread. Throws std::runtime_error if the plug-in was built without nvJPEG, or the library is
/// missing or refuses.
const device::JpegDecoder& nvjpeg_decoder(const std::vector<int64_t>& gpus, const std::string& kind);

}  // namespace lockstep::cuda
