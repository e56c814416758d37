#include "lockstep/base/character.h"

#include <algorithm>

#include <utf8proc.h>

#include "lockstep/base/text.h"

namespace lockstep {
namespace {

// Of the character that text begins with: its bytes, not above 0 if there is none, and its number.
utf8proc_ssize_t read_character(std::string_view text, utf8proc_int32_t& code) {
  return utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                          static_cast<utf8proc_ssize_t>(text.size()), &code);
}

// They change the order in which a terminal shows what follows.
bool sets_direction(const utf8proc_property_t& property) {
  switch (property.bidi_class) {
    case UTF8PROC_BIDI_CLASS_LRE:
    case UTF8PROC_BIDI_CLASS_RLE:
    case UTF8PROC_BIDI_CLASS_LRO:
    case UTF8PROC_BIDI_CLASS_RLO:
    case UTF8PROC_BIDI_CLASS_PDF:
    case UTF8PROC_BIDI_CLASS_LRI:
    case UTF8PROC_BIDI_CLASS_RLI:
    case UTF8PROC_BIDI_CLASS_FSI:
    case UTF8PROC_BIDI_CLASS_PDI:
      return true;
    default:
      return false;
  }
}

bool is_control(std::string_view character, size_t length) {
  constexpr unsigned char kFirstLetter = 0xA0;  // of the bytes above ASCII, where a text is not in UTF-8
  if (length == 0) return static_cast<unsigned char>(character.front()) < kFirstLetter;
  const utf8proc_property_t& property =
      *utf8proc_get_property(static_cast<utf8proc_int32_t>(code_of_character(character)));
  return property.category == UTF8PROC_CATEGORY_CC || property.category == UTF8PROC_CATEGORY_ZL ||
         property.category == UTF8PROC_CATEGORY_ZP || sets_direction(property);
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = character_length(text, 0);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

size_t character_length(std::string_view text, size_t place) {
  utf8proc_int32_t code = 0;
  return static_cast<size_t>(std::max<utf8proc_ssize_t>(0, read_character(text.substr(place), code)));
}

char32_t code_of_character(std::string_view character) {
  utf8proc_int32_t code = 0;
  read_character(character, code);
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

std::string printable(std::string_view text) {
  std::string result;
  for (size_t place = 0; place < text.size();) {
    const size_t length = character_length(text, place);
    const std::string_view character = text.substr(place, std::max<size_t>(1, length));
    if (!is_control(character, length))
      result += character;
    else
      result += character == "\n" || character == "\t" ? ' ' : '?';
    place += character.size();
  }
  return result;
}

}  // namespace lockstep
