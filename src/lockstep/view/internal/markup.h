// Makes text of unknown origin safe for HTML and SVG.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::view {

/// For text and for attributes in either quotes: nothing in the result is markup. Bytes that are not UTF-8
/// and control characters become U+FFFD; line breaks and tabs become blanks.
std::string escaped(std::string_view text);

}  // namespace lockstep::view
