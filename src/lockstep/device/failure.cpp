#include "lockstep/device/failure.h"
#include "lockstep/base/text.h"

#include <filesystem>
#include <new>
#include <string>
#include <system_error>

#include <c10/util/Exception.h>

namespace lockstep::device {
namespace {

Error out_of_memory() {
  return {ErrorCode::out_of_memory, "out of memory",
          "use a smaller --mini-batch-size, more --accumulate, fewer --workers or a smaller --memory-share"};
}

// LibTorch tells in several sentences; the first two are what could not be had, and of which GPU.
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
  return memory ? out_of_memory() : Error(ErrorCode::internal, "LibTorch says: " + first_line(text));
}

}  // namespace

Error error_of(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    return error;
  } catch (const c10::OutOfMemoryError& error) {
    return gpu_out_of_memory(error.what_without_backtrace());
  } catch (const c10::AcceleratorError& error) {
    return {ErrorCode::device, "the GPU failed: " + first_line(error.what_without_backtrace()),
            "see nvidia-smi; --execution cpu does without the GPU"};
  } catch (const c10::Error& error) {
    return of_torch(error);
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::filesystem::filesystem_error& error) {
    return errno_error(error.code().value(), "use", error.path1().string());
  } catch (const std::system_error& error) {
    return {ErrorCode::io, "the system refused: " + error.code().message(),
            "check the limits of this account (ulimit -a)"};
  } catch (const std::exception& error) {
    return {ErrorCode::internal, error.what()};
  } catch (...) {
    return {ErrorCode::internal, "an exception of an unknown type"};
  }
}

}  // namespace lockstep::device
