#include "lockstep/sweep/internal/power_transform.h"

#include <cmath>

#include <boost/math/tools/minima.hpp>

namespace lockstep::sweep {
namespace {

using Eigen::VectorXd;

constexpr int kBits = 20;  // of the power that are looked for

// The integral of (1 + x)^(power - 1) from 0 to x.
double power_of(double x, double power) {
  return power == 0 ? std::log1p(x) : std::expm1(power * std::log1p(x)) / power;
}

double variance_of(const VectorXd& values) { return (values.array() - values.mean()).square().mean(); }

}  // namespace

VectorXd standardized(const VectorXd& values) {
  const VectorXd centered = values.array() - values.mean();
  const double deviation = std::sqrt(variance_of(values));
  return deviation > 0 ? VectorXd(centered / deviation) : VectorXd::Zero(values.size());
}

VectorXd transformed_by_power(const VectorXd& values, double power) {
  return values.unaryExpr(
      [power](double x) { return x >= 0 ? power_of(x, power) : -power_of(-x, 2 - power); });
}

double most_likely_power(const VectorXd& values) {
  if (!(variance_of(values) > 0)) return 1;
  const double slopes =
      values.unaryExpr([](double x) { return std::copysign(std::log1p(std::abs(x)), x); }).sum();
  const auto loss = [&](double power) {
    const double variance = variance_of(transformed_by_power(values, power));
    return 0.5 * static_cast<double>(values.size()) * std::log(variance) - (power - 1) * slopes;
  };
  return boost::math::tools::brent_find_minima(loss, kLeastPower, kMostPower, kBits).first;
}

}  // namespace lockstep::sweep
