// Words of command lines that are printed to be pasted into a shell.
#pragma once

#include <string>

namespace lockstep::cli {

/// The word as a shell reads it, in quotes where it needs them.
std::string shell_word(const std::string& word);

}  // namespace lockstep::cli
