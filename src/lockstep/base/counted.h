// Numbers of things in messages.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/base/text.h"

namespace lockstep {

/// "1 value", "2 values", "1,000 values", "2 classes". noun: in the singular; its plural ends with "s", or
/// with "es" behind an s.
inline std::string counted(int64_t count, const std::string& noun) {
  return with_commas(count) + " " + noun + (count == 1 ? "" : noun.ends_with('s') ? "es" : "s");
}

}  // namespace lockstep
