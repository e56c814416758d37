#include "lockstep/sweep/internal/row_value.h"

#include <algorithm>
#include <cmath>

#include "lockstep/base/text.h"

namespace lockstep::sweep {

std::optional<double> value_of(const Parameter& parameter, const Row& row) {
  const auto assigned = std::find_if(row.parameters.begin(), row.parameters.end(),
                                     [&](const auto& one) { return one.first == parameter.name; });
  if (assigned == row.parameters.end()) return std::nullopt;
  const std::string& text = assigned->second;
  if (parameter.is_number()) {
    const auto number = parse_number<double>(text);
    const bool is_in_range = number && parameter.low <= *number && *number <= parameter.high;
    return is_in_range ? number : std::nullopt;
  }
  const auto choice = std::find(parameter.choices.begin(), parameter.choices.end(), text);
  if (choice == parameter.choices.end()) return std::nullopt;
  return static_cast<double>(choice - parameter.choices.begin());
}

bool is_complete(const Row& row) {
  return row.state == TrialState::ended && row.value && std::isfinite(*row.value);
}

}  // namespace lockstep::sweep
