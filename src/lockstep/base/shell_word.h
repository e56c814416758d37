// Words of command lines for a shell: to be pasted by a user, or run on another machine.
#pragma once

#include <string>

namespace lockstep {

/// The word as a POSIX shell reads it, in quotes where it needs them.
std::string shell_word(const std::string& word);

}  // namespace lockstep
