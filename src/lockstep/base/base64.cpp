#include "lockstep/base/base64.h"

#include <cstdint>

namespace lockstep {

std::string as_base64(std::string_view bytes) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto byte_at = [&](size_t i) {
    return i < bytes.size() ? static_cast<uint8_t>(bytes[i]) : uint8_t{0};
  };
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const uint32_t three = uint32_t{byte_at(i)} << 16 | uint32_t{byte_at(i + 1)} << 8 | byte_at(i + 2);
    for (const int shift : {18, 12, 6, 0}) text += kDigits[three >> shift & 63];
  }
  for (size_t missing = (3 - bytes.size() % 3) % 3, i = 0; i < missing; ++i) text[text.size() - 1 - i] = '=';
  return text;
}

}  // namespace lockstep
