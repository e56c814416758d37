// Parses the words of a command line into a Call. CLI11 splits the words; the options come from the verb's
// described structs.
#pragma once

#include <string>
#include <vector>

#include "lockstep/cli/verb.h"

namespace lockstep::cli {

/// Reads the words after the verb's name. Throws invalid_option for an unknown option (the message suggests
/// the nearest one), an option with no value or an invalid value, and too few or too many words.
Call read_arguments(const Verb& verb, const std::vector<std::string>& arguments);

/// The same for a verb that starts another program: options come before the first word, and everything from
/// that word on is a word. -n means --ranks.
Call read_program_arguments(const Verb& verb, const std::vector<std::string>& arguments);

/// The same for a verb that searches: options before "--" that it does not have, and --param NAME=VALUES, are
/// Call::searched.
Call read_search_arguments(const Verb& verb, const std::vector<std::string>& arguments);

}  // namespace lockstep::cli
