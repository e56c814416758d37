// Whether a folder is on a file system that other machines see too, and late.
#pragma once

#include <filesystem>

namespace lockstep::record {

/// False if the system does not say.
bool is_on_network(const std::filesystem::path& folder);

}  // namespace lockstep::record
