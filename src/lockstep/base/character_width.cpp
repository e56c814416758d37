#include <algorithm>
#include <array>

#include "lockstep/base/character.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

struct Range {
  char32_t first, last;
};

// The scripts that East_Asian_Width of Unicode (UAX #11) calls W or F, in whole blocks, and emoji.
constexpr std::array<Range, 20> kWide{
    {{0x1100, 0x115F},   {0x231A, 0x231B},   {0x2329, 0x232A},   {0x23E9, 0x23EC},   {0x2614, 0x2615},
     {0x2648, 0x2653},   {0x2E80, 0x303E},   {0x3041, 0xA4CF},   {0xA960, 0xA97F},   {0xAC00, 0xD7A3},
     {0xF900, 0xFAFF},   {0xFE10, 0xFE19},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},
     {0x17000, 0x18CFF}, {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F900, 0x1FAFF}, {0x20000, 0x3FFFD}}};

// Combining marks of frequent scripts, and characters that are not drawn.
constexpr std::array<Range, 25> kWithoutWidth{
    {{0x0300, 0x036F}, {0x0483, 0x0489}, {0x0591, 0x05BD}, {0x0610, 0x061A}, {0x064B, 0x065F},
     {0x0900, 0x0902}, {0x093C, 0x093C}, {0x0941, 0x0948}, {0x094D, 0x094D}, {0x0E31, 0x0E31},
     {0x0E34, 0x0E3A}, {0x0E47, 0x0E4E}, {0x1160, 0x11FF}, {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF},
     {0x200B, 0x200F}, {0x202A, 0x202E}, {0x2060, 0x2064}, {0x20D0, 0x20FF}, {0x302A, 0x302D},
     {0x3099, 0x309A}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}, {0xFEFF, 0xFEFF}, {0xE0100, 0xE01EF}}};

template <size_t Count>
bool is_in(const std::array<Range, Count>& ranges, char32_t code) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const Range& range) { return range.first <= code && code <= range.last; });
}

}  // namespace

char32_t code_of_character(std::string_view character) {
  const auto first = static_cast<unsigned char>(character.front());
  char32_t code = character.size() == 1 ? first : first & (0x7FU >> character.size());
  for (const char byte : character.substr(1)) code = code << 6 | (static_cast<unsigned char>(byte) & 0x3FU);
  return code;
}

int width_of_character(std::string_view character) {
  if (character.size() < 2) return 1;
  const char32_t code = code_of_character(character);
  return is_in(kWithoutWidth, code) ? 0 : is_in(kWide, code) ? 2 : 1;
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
