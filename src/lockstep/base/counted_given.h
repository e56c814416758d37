// A number of things that are given, for messages.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/base/counted.h"

namespace lockstep {

/// "1 name is given", "2 names are given".
inline std::string counted_given(int64_t count, const std::string& noun) {
  return counted(count, noun) + (count == 1 ? " is given" : " are given");
}

}  // namespace lockstep
