// Translates failed requests for the user.
#pragma once

#include <string>

#include "lockstep/base/error.h"

namespace lockstep::object_store {

/// From Arrow's text for a failure of `verb` ("list", "read", "write") on `name`. What servers say about keys
/// is not repeated.
Error failure_of(const std::string& verb, const std::string& name, const std::string& words);

}  // namespace lockstep::object_store
