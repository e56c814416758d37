// The version of Lockstep.
#pragma once

#include <string_view>

namespace lockstep {

/// "1.2.0"
std::string_view version();

}  // namespace lockstep
