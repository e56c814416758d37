#include "lockstep/view/internal/trial_words.h"

#include <algorithm>

#include "lockstep/base/text.h"
#include "lockstep/view/internal/figures.h"

namespace lockstep::view {

const sweep::Row* find_row(const sweep::Table& table, int64_t trial) {
  const auto found = std::ranges::find(table.rows, trial, &sweep::Row::trial);
  return found == table.rows.end() ? nullptr : &*found;
}

std::string value_text(const sweep::Row& row, const sweep::Parameter& parameter) {
  const std::string value = text_of(row, parameter.name);
  const bool is_long = parameter.kind == sweep::ParameterKind::real && value.size() > 8 &&
                       value.find_first_of(".e") != value.npos;
  const auto number = parse_number<double>(value);
  return is_long && number ? as_rate(*number) : value;
}

std::string result_of(const sweep::Row& row) { return row.value ? sweep::result_text(*row.value) : "–"; }

std::string trial_title(const sweep::Table& table, const sweep::Row& row) {
  return "Trial " + std::to_string(row.trial) + ": " + table.spec.metric() + " " + result_of(row) +
         (&row == table.best() ? " ★" : "");
}

std::string parameters_text(const sweep::Table& table, const sweep::Row& row) {
  std::vector<std::string> words;
  for (const sweep::Parameter& parameter : table.spec.space.parameters()) {
    const std::string value = value_text(row, parameter);
    if (!value.empty()) words.push_back(parameter.name + " " + value);
  }
  return join(words, ", ");
}

}  // namespace lockstep::view
