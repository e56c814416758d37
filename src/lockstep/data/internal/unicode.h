// Names in Unicode: macOS stores a letter with an accent as two characters, other systems as one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::data {

/// Appends a character in UTF-8 (RFC 3629).
void append_character(std::string& text, uint32_t character);

/// The text with each letter split from its accents (Unicode's form NFD, but accents stay in their order), so
/// that the two ways to write a name become equal. Text that is not UTF-8 stays as it is.
std::string decomposed(std::string_view text);

}  // namespace lockstep::data
