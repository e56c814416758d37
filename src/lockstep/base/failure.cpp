#include "lockstep/base/failure.h"

#include <filesystem>
#include <new>
#include <system_error>

namespace lockstep {

Error out_of_memory() {
  return {ErrorCode::out_of_memory, "out of memory",
          "use a smaller --mini-batch-size, more --accumulate, fewer --workers or a smaller --memory-share"};
}

Error error_from(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    return error;
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

}  // namespace lockstep
