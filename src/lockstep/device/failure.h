// The translator of LibTorch's exceptions.
#pragma once

#include <exception>

#include "lockstep/base/error.h"

namespace lockstep::device {

/// Any exception as an Error in a short sentence, without stack frames. An Error stays unchanged; an
/// unexpected exception has the code internal.
Error error_of(const std::exception_ptr& exception);

}  // namespace lockstep::device
