// --image-size and --resize-to.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace lockstep::train {

/// Height and width out of "227x227". Throws invalid_option naming the option.
std::pair<int64_t, int64_t> parse_size(const std::string& option, const std::string& text);

}  // namespace lockstep::train
