// Characters of text in UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

namespace lockstep {

/// Bytes of the character that begins at this place, 0 if there is none.
size_t character_length(std::string_view text, size_t place);

}  // namespace lockstep
