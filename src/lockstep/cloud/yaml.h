// JSON values as YAML, for configuration files of other programs.
#pragma once

#include <string>

#include "lockstep/base/json.h"

namespace lockstep::cloud {

/// Block style, two spaces. A text is written plainly if every reader of YAML 1.1 and 1.2 takes it for a
/// text, else in double quotes as JSON writes it.
std::string to_yaml(const Json& json);

}  // namespace lockstep::cloud
