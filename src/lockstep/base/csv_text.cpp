#include "lockstep/base/csv_text.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

// The cell that begins at `at`, which then is the place behind it; nothing is known of what stands there.
std::string read_cell(std::string_view text, size_t& at, size_t row) {
  if (at == text.size() || text[at] != '"') {
    const size_t begin = std::exchange(at, std::min(text.find_first_of(",\r\n", at), text.size()));
    return std::string(text.substr(begin, at - begin));
  }
  std::string cell;
  while (true) {
    const size_t begin = at + 1, quote = text.find('"', begin);
    if (quote == std::string_view::npos)
      throw Error(ErrorCode::corrupt_data, "row " + std::to_string(row) + " has a quote without an end");
    cell += text.substr(begin, quote - begin);
    at = quote + 1;
    if (at == text.size() || text[at] != '"') return cell;
    cell += '"';
  }
}

}  // namespace

std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string cell = "\"";
  for (const char c : text) {
    if (c == '"') cell += c;
    cell += c;
  }
  return cell + "\"";
}

std::vector<std::vector<std::string>> csv_rows(std::string_view text) {
  std::vector<std::vector<std::string>> rows;
  for (size_t at = 0; at < text.size(); ++at) {
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back(read_cell(text, at, rows.size()));
    while (at < text.size() && text[at] == ',') row.push_back(read_cell(text, ++at, rows.size()));
    if (text.substr(at).starts_with("\r\n")) ++at;
    if (at < text.size() && text[at] != '\n')
      throw Error(ErrorCode::corrupt_data, "row " + std::to_string(rows.size()) +
                                               " has text behind a quote, or a lone carriage return");
  }
  return rows;
}

}  // namespace lockstep
