// Blanks at the ends of texts that people and other programs write.
#pragma once

#include <algorithm>
#include <string_view>

namespace lockstep {

/// Spaces, tabs, ends of lines, and zeros, with which some programs fill a block.
inline constexpr std::string_view kBlanks(" \t\r\n\0", 5);

/// The text without the blanks at its end.
constexpr std::string_view without_last_blanks(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

/// The text without the blanks at both ends.
constexpr std::string_view without_blanks(std::string_view text) {
  text = without_last_blanks(text);
  return text.substr(std::min(text.find_first_not_of(kBlanks), text.size()));
}

}  // namespace lockstep
