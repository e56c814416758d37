// Turns an exception of any kind into one clear text and an exit status.
#pragma once

#include <exception>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::cli {

/// Any exception as an Error (device/failure.h). An unexpected one is reported as an internal error.
Error as_error(const std::exception_ptr& exception);

/// `lockstep: message`, its context and its hint, one per line.
std::string failure_text(const Error& error);

}  // namespace lockstep::cli
