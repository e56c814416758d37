// Blanks at the ends of texts that people and other programs write.
#pragma once

#include <algorithm>
#include <string_view>

namespace lockstep {

/// Spaces, tabs and ends of lines.
inline constexpr std::string_view kBlanks = " \t\r\n";

/// The text without the blanks at both ends.
constexpr std::string_view without_blanks(std::string_view text) {
  text = text.substr(0, text.find_last_not_of(kBlanks) + 1);
  return text.substr(std::min(text.find_first_not_of(kBlanks), text.size()));
}

}  // namespace lockstep
