#include "lockstep/device/failure.h"

#include <string>

#include <c10/util/Exception.h>

#include "lockstep/base/failure.h"
#include "lockstep/base/text.h"

namespace lockstep::device {
namespace {

// LibTorch uses several sentences; the first two say what could not be allocated, and on which GPU.
Error gpu_out_of_memory(const std::string& text) {
  const size_t first = text.find(". ");
  const size_t second = first == std::string::npos ? first : text.find(". ", first + 2);
  return {ErrorCode::out_of_memory, "the GPU's memory is full: " + first_line(text.substr(0, second)),
          "use a smaller --mini-batch-size, more --shards or --accumulate, or end what else uses the GPU "
          "(nvidia-smi)"};
}

Error of_torch(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  const bool memory = text.find("can't allocate memory") != std::string::npos ||
                      text.find("out of memory") != std::string::npos;
  if (text.starts_with("Expected more than 1 value per channel"))
    return {ErrorCode::invalid_option,
            "a batch norm gets one value for each channel, and one value has no variance",
            "use a larger --mini-batch-size, fewer --shards, --accumulate 1, or larger images"};
  return memory ? out_of_memory() : Error(ErrorCode::internal, "LibTorch says: " + first_line(text));
}

}  // namespace

Error error_of(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const c10::OutOfMemoryError& error) {
    return gpu_out_of_memory(error.what_without_backtrace());
  } catch (const c10::AcceleratorError& error) {
    return {ErrorCode::device, "the GPU failed: " + first_line(error.what_without_backtrace()),
            "see nvidia-smi; --execution cpu does without the GPU"};
  } catch (const c10::Error& error) {
    return of_torch(error);
  } catch (...) {
    return error_from(exception);
  }
}

}  // namespace lockstep::device
