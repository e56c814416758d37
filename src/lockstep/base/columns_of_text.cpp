#include "lockstep/base/columns_of_text.h"

#include "lockstep/base/text.h"

namespace lockstep {

std::string_view cut(std::string_view text, int width) {
  size_t end = 0;
  for (int used = 0; end < text.size(); ++end) {
    const bool is_first_byte = (static_cast<unsigned char>(text[end]) & 0xC0) != 0x80;
    if (is_first_byte && ++used > width) break;
  }
  return text.substr(0, end);
}

std::string shortened(std::string_view text, int width) {
  return width_of(text) <= width ? std::string(text) : std::string(cut(text, width - 1)) + "…";
}

}  // namespace lockstep
