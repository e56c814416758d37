#include "lockstep/data/internal/unicode.h"

#include <algorithm>
#include <array>
#include <vector>

#include <utf8proc.h>

#include "lockstep/base/character.h"
#include "lockstep/base/text.h"

namespace lockstep::data {
namespace {

using Characters = std::vector<utf8proc_int32_t>;

void append_decomposed(Characters& characters, utf8proc_int32_t whole) {
  constexpr size_t kMostParts = 4;  // of a character in the form NFD (Unicode's FAQ on normalization)
  std::array<utf8proc_int32_t, kMostParts> parts{};
  int boundary = 0;  // of no use without UTF8PROC_CHARBOUND
  const utf8proc_ssize_t count =
      utf8proc_decompose_char(whole, parts.data(), parts.size(), UTF8PROC_DECOMPOSE, &boundary);
  if (count == 1) parts.front() = whole;  // Unicode's replacement may look different
  characters.insert(characters.end(), parts.begin(), parts.begin() + count);
}

int accent_class(utf8proc_int32_t character) { return utf8proc_get_property(character)->combining_class; }

// Accents at different places of a letter have one order (UAX #15); those at the same place keep theirs.
void order_accents(Characters& characters) {
  const auto is_accent = [](utf8proc_int32_t character) { return accent_class(character) != 0; };
  for (auto at = characters.begin(); at != characters.end();) {
    const auto first = std::find_if(at, characters.end(), is_accent);
    at = std::find_if_not(first, characters.end(), is_accent);
    std::ranges::stable_sort(first, at, {}, accent_class);
  }
}

}  // namespace

void append_character(std::string& text, uint32_t character) {
  constexpr size_t kMostBytes = 4;
  std::array<utf8proc_uint8_t, kMostBytes> bytes{};
  const utf8proc_ssize_t count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(character), bytes.data());
  text.append(bytes.begin(), bytes.begin() + count);
}

std::string decomposed(std::string_view text) {
  if (!is_utf8(text)) return std::string(text);
  Characters characters;
  for (size_t at = 0, length = 0; at < text.size(); at += length) {
    length = character_length(text, at);
    append_decomposed(characters, static_cast<utf8proc_int32_t>(code_of_character(text.substr(at, length))));
  }
  order_accents(characters);
  std::string result;
  for (const utf8proc_int32_t character : characters)
    append_character(result, static_cast<uint32_t>(character));
  return result;
}

}  // namespace lockstep::data
