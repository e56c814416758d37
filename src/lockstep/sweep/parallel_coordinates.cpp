#include "lockstep/sweep/parallel_coordinates.h"

#include <algorithm>
#include <cmath>

#include "lockstep/sweep/internal/row_value.h"

namespace lockstep::sweep {
namespace {

constexpr double kShownRange = 30;  // times as far from the best result as the middle one

// Of trials that have a result and have not failed; the best first.
std::vector<const Row*> rows_by_result(const Table& table) {
  std::vector<const Row*> rows;
  for (const Row& row : table.rows) {
    if (row.value && std::isfinite(*row.value) && row.state != TrialState::failed) rows.push_back(&row);
  }
  const double sign = table.spec.maximizes() ? -1 : 1;
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const Row* a, const Row* b) { return sign * *a->value < sign * *b->value; });
  return rows;
}

ShownResults shown_of(const std::vector<const Row*>& rows) {
  if (rows.empty()) return {};
  const double best = *rows.front()->value;
  const auto distance = [&](const Row* row) { return std::abs(*row->value - best); };
  const double most = kShownRange * distance(rows[rows.size() / 2]);
  size_t count = rows.size();
  while (most > 0 && distance(rows[count - 1]) > most) --count;
  const double worst = *rows[count - 1]->value;
  return {std::min(best, worst), std::max(best, worst), static_cast<int64_t>(rows.size() - count)};
}

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
  const std::vector<const Row*> rows = rows_by_result(table);
  const ShownResults shown = shown_of(rows);
  const ParallelAxis result{
      .name = table.spec.metric(), .low = shown.low, .high = shown.high, .beyond = shown.beyond};
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

ShownResults shown_results(const Table& table) { return shown_of(rows_by_result(table)); }

}  // namespace lockstep::sweep
