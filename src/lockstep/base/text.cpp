#include "lockstep/base/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace lockstep {
namespace {

// Shorter words are parts of too many others.
constexpr size_t kLeastPart = 4;

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  // With as many changes as letters, a word becomes any other.
  size_t best_distance = std::min(std::max<size_t>(2, word.size() / 3) + 1, word.size());
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  if (!best.empty() || word.size() < kLeastPart) return best;
  const auto found = std::find_if(candidates.begin(), candidates.end(), [&](const std::string& candidate) {
    return candidate.find(word) != std::string::npos;
  });
  return found == candidates.end() ? best : *found;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string found = nearest(word, candidates);
  return found.empty() ? std::string() : "did you mean " + found + "?";
}

std::string with_commas(int64_t value) {
  std::string digits = std::to_string(value);
  const size_t first = digits.front() == '-' ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string as_bytes(int64_t bytes) {
  static constexpr std::array<const char*, 5> units{"B", "KB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return (unit == 0 ? std::to_string(bytes) : fixed(value, 1)) + " " + units[unit];
}

std::optional<int64_t> parse_bytes(std::string_view text) {
  constexpr std::string_view kUnits = "kmgt";
  std::string number = lower(text);
  if (!number.empty() && number.back() == 'b') number.pop_back();
  int64_t unit = 1;
  if (const size_t at = number.empty() ? std::string::npos : kUnits.find(number.back());
      at != std::string::npos) {
    unit = int64_t{1} << (10 * (at + 1));
    number.pop_back();
  }
  const auto value = parse_number<double>(number);
  if (!value || !(*value > 0) || *value * static_cast<double>(unit) > 1e18) return std::nullopt;
  return static_cast<int64_t>(*value * static_cast<double>(unit));
}

std::string as_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const int64_t whole = std::llround(seconds);
  if (whole < 60) return std::to_string(whole) + " s";
  std::array<char, 64> buffer{};
  if (whole < 3600) {
    std::snprintf(buffer.data(), buffer.size(), "%lld:%02lld", static_cast<long long>(whole / 60),
                  static_cast<long long>(whole % 60));
  } else {
    std::snprintf(buffer.data(), buffer.size(), "%lld:%02lld:%02lld", static_cast<long long>(whole / 3600),
                  static_cast<long long>(whole / 60 % 60), static_cast<long long>(whole % 60));
  }
  return buffer.data();
}

std::string fixed(double value, int digits) {
  if (std::isnan(value)) return "nan";  // its sign means nothing
  std::array<char, 64> buffer{};
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed, digits);
  return end.ec == std::errc() ? std::string(buffer.data(), end.ptr) : shortest(value);
}

std::string shortest(double value) {
  if (std::isnan(value)) return "nan";
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return std::string(buffer.data(), end.ptr);
}

std::string quote(std::string_view text) { return "\"" + std::string(text) + "\""; }

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const size_t at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty()) text += separator;
    text += part;
  }
  return text;
}

std::string join_numbers(const std::vector<int64_t>& numbers, std::string_view separator) {
  std::vector<std::string> parts;
  for (const int64_t number : numbers) parts.push_back(std::to_string(number));
  return join(parts, separator);
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = (c >= 'A' && c <= 'Z') ? static_cast<char>(c - 'A' + 'a') : c;
  return result;
}

}  // namespace lockstep
