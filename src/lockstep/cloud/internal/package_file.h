// The package of Lockstep that the machines of a cluster install.
#pragma once

#include <string>

namespace lockstep::cloud {

/// The named file, or the only package of the kind in this folder or in dist. Throws invalid_option.
std::string package_file(const std::string& named, bool has_gpus);

}  // namespace lockstep::cloud
