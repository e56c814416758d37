// Text that somebody else wrote, made fit to stand in HTML and SVG.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::view {

/// For text and for attributes in either quotes: nothing in it is markup. What is not UTF-8 and control
/// characters become U+FFFD, line breaks and tabs blanks.
std::string escaped(std::string_view text);

/// RFC 4648, with padding.
std::string as_base64(std::string_view bytes);

}  // namespace lockstep::view
