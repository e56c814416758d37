// Scripts with which shells complete the program's commands, options and choices.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/cli/verb.h"

namespace lockstep::cli {

/// The script for this shell: bash, zsh or fish. Throws invalid_option for another one.
std::string completion_script(std::string_view shell, const std::vector<Verb>& verbs);

}  // namespace lockstep::cli
