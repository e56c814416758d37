// Words and figures as people read them.
#pragma once

#include <charconv>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace lockstep {

/// The candidate nearest to `word` by edit distance, else the first that contains it ("epochs" in
/// "max-epochs"), or empty when none is near enough to be a misspelling.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// "did you mean --momentum?", or empty.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

/// 9728 -> "9,728".
std::string with_commas(int64_t value);

/// 7340032 -> "7.0 MB" (powers of 1024).
std::string as_bytes(int64_t bytes);

/// "4G", "500M", "2.5kB", "1024", in units of 1024; nothing for what is no size above 0.
std::optional<int64_t> parse_bytes(std::string_view text);

/// 75 s -> "1:15", 3 s -> "3 s", 4000 s -> "1:06:40".
std::string as_duration(double seconds);

/// printf("%.*f") without locale.
std::string fixed(double value, int digits);

/// The shortest text that reads back as the same double: 0.1 -> "0.1".
std::string shortest(double value);

/// "text", as values are written in messages. Not named quoted: that would be std::quoted for a std::string.
std::string quote(std::string_view text);

std::vector<std::string> split(std::string_view text, char separator);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::string join_numbers(const std::vector<int64_t>& numbers, std::string_view separator);
std::string lower(std::string_view text);

/// Whether these bytes are text in UTF-8 (RFC 3629).
bool is_utf8(std::string_view text);

/// Columns on a terminal: the sum of those of its characters (width_of_character in character.h).
int width_of(std::string_view text);

/// For a terminal: a blank for each end of line and tab, "?" for every other control character.
std::string printable(std::string_view text);

/// The number that is the whole text, without a sign "+" or blanks; nothing for any other text and for what T
/// cannot hold. "inf" and "nan" are numbers.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Up to the first line break.
inline std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace lockstep
