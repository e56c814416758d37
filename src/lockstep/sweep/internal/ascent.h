// The highest place of a smooth function between bounds.
#pragma once

#include <functional>

#include <Eigen/Core>

namespace lockstep::sweep {

/// The value at a place; sets the gradient, which has the place's size.
using SmoothFunction = std::function<double(const Eigen::VectorXd& place, Eigen::VectorXd& gradient)>;

struct AscentOptions {
  double least_gain = 1e-6;  ///< a step that gains less is the last one
  int most_steps = 200;      ///< evaluations of the function
};

struct Ascent {
  Eigen::VectorXd place{};
  double value = 0;
};

/// L-BFGS (Nocedal 1980, in NLopt) from `start`. The result is never lower than the start. It is a function
/// of its arguments: it knows no clock and no random numbers.
Ascent ascend(const SmoothFunction& function, const Eigen::VectorXd& start, const Eigen::VectorXd& low,
              const Eigen::VectorXd& high, const AscentOptions& options);

}  // namespace lockstep::sweep
