// Exceptions of all kinds as one clear text and an exit status.
#pragma once

#include <exception>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::cli {

/// Any exception as an Error (device/failure.h). One that nobody foresaw is called a fault of the program's.
Error as_error(const std::exception_ptr& exception);

/// `lockstep: message`, its context and its hint, a line each.
std::string failure_text(const Error& error);

}  // namespace lockstep::cli
