// The normal distribution between two bounds, also far out in its tails.
#pragma once

namespace lockstep::sweep {

/// The logarithm of the standard normal distribution function.
double log_normal_cdf(double x);

/// The logarithm of the standard normal's mass between a and b, a <= b.
double log_normal_mass(double a, double b);

/// The point below which a share `place` in [0, 1) of the standard normal's mass between a and b lies.
double normal_between(double a, double b, double place);

}  // namespace lockstep::sweep
