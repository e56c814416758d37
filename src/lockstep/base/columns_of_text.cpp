#include "lockstep/base/columns_of_text.h"

#include <algorithm>

#include "lockstep/base/character.h"
#include "lockstep/base/text.h"

namespace lockstep {

std::string_view cut(std::string_view text, int width) {
  size_t end = 0;
  for (int used = 0; end < text.size();) {
    const size_t length = std::max<size_t>(1, character_length(text, end));
    used += width_of_character(text.substr(end, length));
    if (used > width) break;
    end += length;
  }
  return text.substr(0, end);
}

std::string shortened(std::string_view text, int width) {
  return width_of(text) <= width ? std::string(text) : std::string(cut(text, width - 1)) + "…";
}

}  // namespace lockstep
