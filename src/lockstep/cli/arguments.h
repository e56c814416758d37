// From the words of a command line to a Call. CLI11 does the splitting, the options come from the verb's
// described structs.
#pragma once

#include <string>
#include <vector>

#include "lockstep/cli/verb.h"

namespace lockstep::cli {

/// Reads what stands after the verb's name. Throws invalid_option for an unknown option (with the nearest),
/// an option without its value or with a bad one, and too few or too many words.
Call read_arguments(const Verb& verb, const std::vector<std::string>& arguments);

/// The same for a verb that starts another program: options stand before the first word, and from there on
/// all are words. -n is --ranks.
Call read_program_arguments(const Verb& verb, const std::vector<std::string>& arguments);

}  // namespace lockstep::cli
