// Errors that travel from a worker to the client.
#pragma once

#include <exception>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"

namespace lockstep::pool {

/// Any exception of a task as an Error.
Error error_of(const std::exception_ptr& exception);

Json json_of(const Error& error);
/// Throws corrupt_data for anything but what json_of gave.
Error error_of(const Json& json);

}  // namespace lockstep::pool
