// Bytes as text.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// RFC 4648, section 4, with padding.
std::string as_base64(std::string_view bytes);

}  // namespace lockstep
