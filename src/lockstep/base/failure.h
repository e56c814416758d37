// The translator of the standard library's exceptions. That of LibTorch's is device/failure.h.
#pragma once

#include <exception>

#include "lockstep/base/error.h"

namespace lockstep {

/// Any exception as an Error. An Error stays as it is. What the standard library does not explain has the
/// code internal.
Error error_from(const std::exception_ptr& exception);

/// The Error for an allocation that failed.
Error out_of_memory();

}  // namespace lockstep
