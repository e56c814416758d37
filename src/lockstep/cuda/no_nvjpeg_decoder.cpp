#include <stdexcept>

#include "lockstep/cuda/nvjpeg_decoder.h"

namespace lockstep::cuda {

const device::JpegDecoder& nvjpeg_decoder(const std::vector<int64_t>&, const std::string&) {
  throw std::runtime_error("the CUDA plug-in was built without nvJPEG");
}

}  // namespace lockstep::cuda
