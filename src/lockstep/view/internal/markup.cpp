#include "lockstep/view/internal/markup.h"

#include <array>
#include <cstdint>

#include "lockstep/base/character.h"
#include "lockstep/base/text.h"

namespace lockstep::view {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

uint8_t byte_at(std::string_view text, size_t place) {
  return place < text.size() ? static_cast<uint8_t>(text[place]) : 0;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  for (size_t place = 0; place < text.size();) {
    const size_t length = character_length(text, place);
    const char c = text[place];
    if (length == 0 || (length == 2 && c == '\xC2' && byte_at(text, place + 1) < 0xA0)) {
      result += kReplacement;
    } else if (length > 1) {
      result += text.substr(place, length);
    } else {
      switch (c) {
        case '&':
          result += "&amp;";
          break;
        case '<':
          result += "&lt;";
          break;
        case '>':
          result += "&gt;";
          break;
        case '"':
          result += "&quot;";
          break;
        case '\'':
          result += "&#39;";
          break;
        case '\n':
        case '\r':
        case '\t':
          result += ' ';
          break;
        default:
          if (static_cast<uint8_t>(c) < 0x20 || c == 0x7F) {
            result += kReplacement;
          } else {
            result += c;
          }
      }
    }
    place += length == 0 ? 1 : length;
  }
  return result;
}

}  // namespace lockstep::view
