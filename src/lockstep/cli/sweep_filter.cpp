#include "lockstep/cli/sweep_filter.h"

#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/sweep_table.h"

namespace lockstep::cli {
namespace {

using sweep::Row;

struct FilterWord {
  std::string text{};               // without its quotes
  size_t sign = std::string::npos;  // place of the first =, < or > outside of quotes
};

std::vector<FilterWord> filter_words(const std::string& text) {
  std::vector<FilterWord> words(1);
  char quote_sign = 0;
  for (const char c : text) {
    if (c == quote_sign) {
      quote_sign = 0;
    } else if (quote_sign == 0 && (c == '"' || c == '\'')) {
      quote_sign = c;
    } else if (quote_sign == 0 && c == ' ') {
      words.emplace_back();
    } else {
      FilterWord& word = words.back();
      if (quote_sign == 0 && std::string_view("=<>").find(c) != std::string_view::npos)
        word.sign = std::min(word.sign, word.text.size());
      word.text += c;
    }
  }
  if (quote_sign != 0)
    throw Error(ErrorCode::invalid_option, "the filter " + quote(text) + " has a quote without an end",
                "write note=\"it's fine\" for a text with a quote in it");
  std::erase_if(words, [](const FilterWord& word) { return word.text.empty(); });
  return words;
}

// All that a column of words can have; nothing for the others.
std::vector<std::string> values_of(const sweep::Table& table, const std::string& column) {
  if (column == "state") {
    const auto names = enum_names(sweep::TrialState{});
    return {names.begin(), names.end()};
  }
  for (const sweep::Parameter& parameter : table.spec.space.parameters()) {
    if (parameter.name == column) return parameter.choices;
  }
  return {};
}

// Numbers may be written in another way, and as the table shows them.
bool is_choice(const std::string& value, const std::string& text) {
  const auto number = parse_number<double>(value);
  return value == text || short_number(value) == text || (number && number == parse_number<double>(text));
}

// A misspelling would only show no trial.
void check_value(const std::vector<std::string>& values, const std::string& column, const std::string& text) {
  if (text.empty() || values.empty() ||
      std::ranges::any_of(values, [&](const std::string& value) { return is_choice(value, text); }))
    return;
  const auto longer =
      std::ranges::find_if(values, [&](const std::string& value) { return value.starts_with(text + " "); });
  const std::string meant = did_you_mean(text, values);
  throw Error(ErrorCode::invalid_option, quote(column) + " of a trial is never " + quote(text),
              longer == values.end()
                  ? (meant.empty() ? "it is one of " + join(values, ", ") : meant)
                  : "write " + column + "=\"" + *longer + "\"; quotes hold words together");
}

bool contains(const std::string& text, const std::string& part) {
  return lower(text).find(lower(part)) != std::string::npos;
}

std::vector<std::string> columns_of(const sweep::Table& table) {
  std::vector<std::string> names{"trial", "state", "result", "steps", "time", "note"};
  for (const sweep::Parameter& parameter : table.spec.space.parameters()) names.push_back(parameter.name);
  return names;
}

// In quotes only that of a condition as a whole, as in 'x=two words'.
size_t sign_in_quotes(const sweep::Table& table, const std::string& word) {
  const size_t sign = word.find_first_of("=<>");
  const size_t end = sign != std::string::npos && sign > 0 && word[sign - 1] == '!' ? sign - 1 : sign;
  const std::vector<std::string> names = columns_of(table);
  return std::ranges::find(names, word.substr(0, end)) == names.end() ? std::string::npos : sign;
}

std::string cell_of(const Row& row, const std::string& column) {
  if (column == "state") return state_of(row);
  if (column == "trial") return std::to_string(row.trial);
  if (column == "result") return row.value ? shortest(*row.value) : "";
  if (column == "steps") return std::to_string(row.step);
  if (column == "time") return shortest(row.seconds);
  return text_of(row, column);
}

}  // namespace

std::string sweep_column(const sweep::Table& table, const std::string& name) {
  const std::vector<std::string> names = columns_of(table);
  if (std::ranges::find(names, name) != names.end()) return name;
  if (name == table.spec.metric()) return "result";
  throw Error(ErrorCode::invalid_option, "the sweep has no column " + quote(name),
              "its columns are " + join(names, ", "));
}

SweepFilter::SweepFilter(const sweep::Table& table, const std::string& text) {
  for (const FilterWord& word : filter_words(text))
    conditions_.push_back(read_condition(table, word.text, word.sign));
}

SweepFilter::Condition SweepFilter::read_condition(const sweep::Table& table, const std::string& word,
                                                   size_t sign) {
  if (sign == std::string::npos) sign = sign_in_quotes(table, word);
  if (sign == std::string::npos) return {.text = word};
  size_t length = 1;
  if (word[sign] == '=' && sign > 0 && word[sign - 1] == '!') {
    --sign;
    length = 2;
  } else if (word[sign] != '=' && sign + 1 < word.size() && word[sign + 1] == '=') {
    length = 2;
  }
  Condition condition{
      .column = word.substr(0, sign), .sign = word.substr(sign, length), .text = word.substr(sign + length)};
  condition.column = sweep_column(table, condition.column);
  if (!condition.sign.ends_with('=') || condition.sign == "<=" || condition.sign == ">=") {
    if (const auto limit = parse_number<double>(condition.text); !limit || std::isnan(*limit))
      throw Error(ErrorCode::invalid_option, quote(word) + " compares with no number",
                  "write a number behind the sign, as in 'result>0.9'");
    return condition;
  }
  const std::vector<std::string> values = values_of(table, condition.column);
  check_value(values, condition.column, condition.text);
  condition.is_exact = std::ranges::find(values, condition.text) != values.end();
  return condition;
}

bool SweepFilter::fits(const Row& row) const {
  return std::ranges::all_of(conditions_, [&](const Condition& one) { return fits(row, one); });
}

bool SweepFilter::fits(const Row& row, const Condition& condition) {
  const std::string& text = condition.text;
  const auto is_noted = [&] {
    return text.empty() ? row.error.empty() && row.note.empty()
                        : contains(row.error, text) || contains(row.note, text);
  };
  if (condition.column.empty())
    return is_noted() || contains(state_of(row), text) ||
           std::ranges::any_of(row.parameters, [&](const auto& one) { return contains(one.second, text); });
  const std::string cell = cell_of(row, condition.column);
  const auto number = parse_number<double>(cell), limit = parse_number<double>(text);
  if (condition.sign == "<") return number && *number < *limit;
  if (condition.sign == ">") return number && *number > *limit;
  if (condition.sign == "<=") return number && *number <= *limit;
  if (condition.sign == ">=") return number && *number >= *limit;
  // A number may also be written as the table shows it.
  const bool is_shown = text == (condition.column == "result" && row.value ? sweep::result_text(*row.value)
                                                                           : short_number(cell));
  const bool is_equal = condition.column == "note" ? is_noted()
                        : condition.is_exact       ? cell == text
                                                   : cell == text || is_shown || (number && number == limit);
  return is_equal == (condition.sign == "=");
}

}  // namespace lockstep::cli
