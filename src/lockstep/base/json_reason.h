// Why a file is no JSON, in the words that all errors of such files have.
#pragma once

#include <string>

#include "lockstep/base/json.h"

namespace lockstep {

/// "not valid JSON at byte 7", or the bound that the JSON exceeds.
inline std::string reason_of(const JsonError& error) {
  return error.byte > 0 ? "not valid JSON at byte " + std::to_string(error.byte) : error.what();
}

}  // namespace lockstep
