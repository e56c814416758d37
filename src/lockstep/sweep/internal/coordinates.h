// The points of a space as a Gaussian process sees them.
#pragma once

#include <span>

#include <Eigen/Core>

#include "lockstep/sweep/space.h"

namespace lockstep::sweep {

/// A number is where in its range it lies, from 0 to 1; an integer has a cell of the range, and its place is
/// the value's, not the middle of the cell. A choice is its index. What does not count lies in the middle, or
/// is a choice of its own, so that the distance of two points is that of points in a space without
/// conditions.
class Coordinates {
 public:
  explicit Coordinates(const Space& space) : space_(space) {}

  const Space& space() const { return space_; }
  Eigen::VectorXd of(const Point& point) const;
  Point point(const Eigen::VectorXd& coordinates) const;
  /// After a choice has changed: makes those that count have a value, and others none.
  void settle(Eigen::VectorXd& coordinates) const;
  /// Of a value of parameter i that counts.
  double of(size_t i, double value) const;
  /// Parameter i has a value.
  bool counts(size_t i, const Point& point) const { return space_.counts(i, point); }

 private:
  double value(size_t i, double coordinate) const;
  Space space_;
};

}  // namespace lockstep::sweep
