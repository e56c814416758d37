// Errors that travel from a worker to the client.
#pragma once

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"

namespace lockstep::pool {

Json json_of(const Error& error);
/// Throws corrupt_data for anything but what json_of gave.
Error error_of(const Json& json);

}  // namespace lockstep::pool
