#include "lockstep/sweep/internal/coordinates.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lockstep::sweep {
namespace {

constexpr double kMiddle = 0.5;
constexpr double kNoChoice = -1;

double without_value(const Parameter& parameter) { return parameter.is_number() ? kMiddle : kNoChoice; }

// The bounds of what is uniform: half a step more on both sides of whole numbers.
std::pair<double, double> bounds_of(const Parameter& parameter) {
  const double half = parameter.kind == ParameterKind::integer ? 0.5 : 0;
  const double low = parameter.low - half, high = parameter.high + half;
  return parameter.log ? std::pair(std::log(low), std::log(high)) : std::pair(low, high);
}

}  // namespace

double Coordinates::of(size_t i, double value) const {
  const Parameter& parameter = space_.parameters()[i];
  if (!parameter.is_number()) return value;
  const auto [low, high] = bounds_of(parameter);
  if (!(low < high)) return kMiddle;
  return ((parameter.log ? std::log(value) : value) - low) / (high - low);
}

double Coordinates::value(size_t i, double coordinate) const {
  const Parameter& parameter = space_.parameters()[i];
  if (!parameter.is_number()) return std::max(0.0, coordinate);
  const auto [low, high] = bounds_of(parameter);
  double value = low + (high - low) * coordinate;
  if (parameter.log) value = std::exp(value);
  if (parameter.kind == ParameterKind::integer) value = std::round(value);
  return std::clamp(value, parameter.low, parameter.high);
}

Eigen::VectorXd Coordinates::of(const Point& point) const {
  Eigen::VectorXd coordinates(static_cast<Eigen::Index>(space_.size()));
  for (size_t i = 0; i < space_.size(); ++i)
    coordinates[static_cast<Eigen::Index>(i)] =
        std::isnan(point[i]) ? without_value(space_.parameters()[i]) : of(i, point[i]);
  return coordinates;
}

Point Coordinates::point(const Eigen::VectorXd& coordinates) const {
  Point point(space_.size(), kAbsent);
  for (size_t i = 0; i < space_.size(); ++i) {
    if (space_.counts(i, point)) point[i] = value(i, coordinates[static_cast<Eigen::Index>(i)]);
  }
  return point;
}

void Coordinates::settle(Eigen::VectorXd& coordinates) const {
  const Point point = this->point(coordinates);
  for (size_t i = 0; i < space_.size(); ++i) {
    double& one = coordinates[static_cast<Eigen::Index>(i)];
    if (std::isnan(point[i])) {
      one = without_value(space_.parameters()[i]);
    } else if (space_.parameters()[i].kind != ParameterKind::real) {
      one = of(i, point[i]);
    }
  }
}

}  // namespace lockstep::sweep
