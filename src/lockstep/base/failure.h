// The translator of the standard library's exceptions. LibTorch's are translated by device/failure.h.
#pragma once

#include <exception>

#include "lockstep/base/error.h"

namespace lockstep {

/// Any exception as an Error. An Error stays unchanged. Other exceptions than the standard library's have the
/// code internal.
Error error_from(const std::exception_ptr& exception);

/// The Error for an allocation that failed.
Error out_of_memory();

}  // namespace lockstep
