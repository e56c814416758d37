// Names and secrets that nobody can guess.
#pragma once

#include <cstddef>
#include <string>

namespace lockstep {

/// `bytes` random bytes of the system as hexadecimal digits. Throws io.
std::string random_hex(size_t bytes);

}  // namespace lockstep
