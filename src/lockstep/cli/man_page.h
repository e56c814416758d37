// Man pages, from the descriptions that the help screens show.
#pragma once

#include <string>
#include <vector>

#include "lockstep/cli/verb.h"

namespace lockstep::cli {

/// lockstep(1): what the program is, its commands, its files and exit statuses.
std::string program_page(const std::vector<Verb>& verbs);

/// lockstep-train(1) and so on: one command with its options.
std::string verb_page(const Verb& verb);

/// "lockstep-network-show.1"
std::string page_name(const Verb& verb);

}  // namespace lockstep::cli
