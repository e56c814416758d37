// Characters of text in UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

namespace lockstep {

/// Bytes of the character that begins at this place, 0 if there is none.
size_t character_length(std::string_view text, size_t place);

/// The number of one character of UTF-8 in Unicode.
char32_t code_of_character(std::string_view character);

/// Columns on a terminal of one character of UTF-8: 2 for letters of East Asia and most emoji, 0 for what is
/// drawn on the character before or not at all, otherwise 1, also for controls and a byte that is no
/// character.
int width_of_character(std::string_view character);

}  // namespace lockstep
