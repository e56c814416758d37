#include "lockstep/view/internal/markup.h"

#include <array>
#include <cstdint>

namespace lockstep::view {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

uint8_t byte_at(std::string_view text, size_t place) { return place < text.size() ? static_cast<uint8_t>(text[place]) : 0; }

// The bytes of the character that begins here, 0 for none: shortest forms only, no surrogates, at most U+10FFFF.
size_t character_length(std::string_view text, size_t place) {
  const uint8_t first = byte_at(text, place);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte_at(text, place + i) & 0xC0) != 0x80) return 0;
  }
  const uint8_t second = byte_at(text, place + 1);
  const bool bad = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) || (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
  return bad ? 0 : length;
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
        case '&': result += "&amp;"; break;
        case '<': result += "&lt;"; break;
        case '>': result += "&gt;"; break;
        case '"': result += "&quot;"; break;
        case '\'': result += "&#39;"; break;
        case '\n':
        case '\r':
        case '\t': result += ' '; break;
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

std::string as_base64(std::string_view bytes) {
  static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const uint32_t three = uint32_t{byte_at(bytes, i)} << 16 | uint32_t{byte_at(bytes, i + 1)} << 8 | byte_at(bytes, i + 2);
    for (const int shift : {18, 12, 6, 0}) text += kDigits[three >> shift & 63];
  }
  for (size_t missing = (3 - bytes.size() % 3) % 3, i = 0; i < missing; ++i) text[text.size() - 1 - i] = '=';
  return text;
}

}  // namespace lockstep::view
