// Names in Unicode: macOS stores a letter with an accent as two characters, other systems as one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::data {

/// Appends a character in UTF-8 (RFC 3629).
void append_character(std::string& text, uint32_t character);

/// The text with each letter split from its accents (Unicode's form NFD), so that the two ways to write a
/// name become equal. A character that NFD replaces by a single one stays, because it may look different: a
/// variant of a Chinese character. Text that is not UTF-8 stays as it is.
std::string decomposed(std::string_view text);

}  // namespace lockstep::data
