// Turns an exception of any kind into one clear text and an exit status.
#pragma once

#include <exception>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/failure.h"

namespace lockstep::cli {

/// Any exception as an Error, by `translate`. What that calls internal is reported as a fault of the program.
Error as_error(const std::exception_ptr& exception,
               Error (*translate)(const std::exception_ptr&) = error_from);

/// `lockstep: message`, its context and its hint, one per line.
///   width  columns at which lines break between words, but for lines with a command to copy; 0: none breaks
std::string failure_text(const Error& error, int width = 0);

}  // namespace lockstep::cli
