// The commands that pages can start, and no others.
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/studio/routes.h"
#include "lockstep/studio/training.h"

namespace lockstep::studio {

/// The command that continues a run.
std::vector<std::string> resume_words(const std::filesystem::path& folder, const record::RunSummary& run);

/// The words of {"command": NAME, ...}: what follows NAME is never an option unless it is written here or is
/// one that the command has. Throws invalid_option for a command that studio does not start. files: of a
/// drawn network that the words name.
std::vector<std::string> command_words(const Json& body, const Parts& parts, Files files);

/// What lockstep cloud plan prints of a cluster that {"options"} of "cloud create" would make. Throws
/// invalid_option.
std::vector<std::string> price_words(const Json& body, const Setup& setup);

}  // namespace lockstep::studio
