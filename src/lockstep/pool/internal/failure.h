// Errors that are sent from a worker to the client.
#pragma once

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"

namespace lockstep::pool {

Json json_of(const Error& error);
/// Throws corrupt_data for anything that json_of did not make.
Error error_of(const Json& json);

}  // namespace lockstep::pool
