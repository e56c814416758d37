// The power transform of Yeo and Johnson (2000), which makes skewed values look normal.
#pragma once

#include <Eigen/Core>

namespace lockstep::sweep {

/// Mean 0 and variance 1, in the same order; all 0 if the values are equal.
Eigen::VectorXd standardized(const Eigen::VectorXd& values);

/// Each value's transform. power 1 changes nothing; larger ones draw in the low values, smaller ones the
/// high.
Eigen::VectorXd transformed_by_power(const Eigen::VectorXd& values, double power);

inline constexpr double kLeastPower = -4, kMostPower = 8;

/// The power between these with which the values are most likely normal; 1 if they are equal.
double most_likely_power(const Eigen::VectorXd& values);

}  // namespace lockstep::sweep
