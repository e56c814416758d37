#include <algorithm>

#include <utf8proc.h>

#include "lockstep/base/character.h"
#include "lockstep/base/text.h"

namespace lockstep {

char32_t code_of_character(std::string_view character) {
  utf8proc_int32_t code = 0;
  utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(character.data()),
                   static_cast<utf8proc_ssize_t>(character.size()), &code);
  return static_cast<char32_t>(code);
}

int width_of_character(std::string_view character) {
  if (character.size() < 2) return 1;
  const auto code = static_cast<utf8proc_int32_t>(code_of_character(character));
  const utf8proc_property_t& property = *utf8proc_get_property(code);
  // Terminals draw vowels and last consonants of Korean in the place of the first consonant.
  if (property.boundclass == UTF8PROC_BOUNDCLASS_V || property.boundclass == UTF8PROC_BOUNDCLASS_T) return 0;
  const int width = utf8proc_charwidth(code);
  // The library gives no place to controls, nor to marks that stand beside their letter, as in Hindi.
  const bool has_place =
      property.category == UTF8PROC_CATEGORY_CC || property.category == UTF8PROC_CATEGORY_MC;
  return has_place ? std::max(1, width) : width;
}

int width_of(std::string_view text) {
  int width = 0;
  for (size_t place = 0; place < text.size();) {
    const size_t length = std::max<size_t>(1, character_length(text, place));
    width += width_of_character(text.substr(place, length));
    place += length;
  }
  return width;
}

}  // namespace lockstep
