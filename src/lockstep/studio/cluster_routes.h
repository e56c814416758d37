// Profiles, pools, clusters in the cloud and folders of data, as the commands of the program tell of them.
#pragma once

#include <string>

#include "lockstep/base/json.h"
#include "lockstep/studio/commands.h"
#include "lockstep/studio/studio.h"

namespace lockstep::studio {

/// What lockstep cluster list --json prints.
std::string list_of_profiles(Commands& commands);

/// What lockstep cluster show --json prints. Throws invalid_option for what is no name.
std::string about_profile(const std::string& name, Commands& commands);

/// The file of a profile. Throws as about_profile.
std::string file_of_profile(const std::string& name, Commands& commands);

/// What lockstep pools --json prints.
std::string list_of_pools(Commands& commands);

/// What lockstep cloud list --json prints. It asks AWS.
std::string list_of_clouds(Commands& commands);

/// What lockstep data show --json prints, with samples, of {"data": path or address, "options": those of
/// train}. Throws invalid_option.
std::string about_data(const Json& body, const Setup& setup, Commands& commands);

}  // namespace lockstep::studio
