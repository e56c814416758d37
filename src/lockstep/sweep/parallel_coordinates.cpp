#include "lockstep/sweep/parallel_coordinates.h"

#include <algorithm>
#include <cmath>

#include "lockstep/sweep/internal/row_value.h"

namespace lockstep::sweep {
namespace {

double place_on(const ParallelAxis& axis, double value) {
  if (!axis.choices.empty()) return (value + 0.5) / static_cast<double>(axis.choices.size());
  // Half of each: the distance of two results may be more than any number.
  const auto scaled = [&](double x) { return (axis.log ? std::log(x) : x) / 2; };
  const double span = scaled(axis.high) - scaled(axis.low);
  return span > 0 ? std::clamp((scaled(value) - scaled(axis.low)) / span, 0.0, 1.0) : 0.5;
}

ParallelAxis axis_of(const Parameter& parameter) {
  return {.name = parameter.name,
          .log = parameter.log,
          .low = parameter.low,
          .high = parameter.high,
          .choices = parameter.choices};
}

}  // namespace

ParallelCoordinates parallel_coordinates(const Table& table) {
  ParallelCoordinates plot;
  const std::vector<Parameter>& parameters = table.spec.space.parameters();
  for (const Parameter& parameter : parameters) plot.axes.push_back(axis_of(parameter));
  ParallelAxis result{.name = table.spec.metric()};
  std::vector<const Row*> rows;
  for (const Row& row : table.rows) {
    if (row.value && std::isfinite(*row.value) && row.state != TrialState::failed) rows.push_back(&row);
  }
  const double sign = table.spec.maximizes() ? -1 : 1;
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const Row* a, const Row* b) { return sign * *a->value < sign * *b->value; });
  if (!rows.empty()) {
    result.low = std::min(*rows.front()->value, *rows.back()->value);
    result.high = std::max(*rows.front()->value, *rows.back()->value);
  }
  plot.axes.push_back(result);
  for (size_t i = 0; i < rows.size(); ++i) {
    ParallelLine line{.trial = rows[i]->trial, .state = rows[i]->state, .result = *rows[i]->value};
    if (rows.size() > 1) line.rank = static_cast<double>(i) / static_cast<double>(rows.size() - 1);
    for (size_t axis = 0; axis < parameters.size(); ++axis) {
      const auto value = value_of(parameters[axis], *rows[i]);
      line.places.push_back(value ? place_on(plot.axes[axis], *value) : kAbsent);
    }
    line.places.push_back(place_on(result, line.result));
    plot.lines.push_back(std::move(line));
  }
  return plot;
}

}  // namespace lockstep::sweep
