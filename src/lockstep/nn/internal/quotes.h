// Prepares names from untrusted files for messages.
#pragma once

#include <string>

namespace lockstep::nn {

/// "conv1" in double quotes. Long names are cut between characters; control characters are masked.
std::string in_quotes(const std::string& text);

}  // namespace lockstep::nn
