#include "lockstep/sweep/internal/normal.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include <boost/math/special_functions/erf.hpp>

namespace lockstep::sweep {
namespace {

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

// What is farther away is lost when it is taken from 1.
constexpr double kFar = 8.5;
double tail_below(double x) { return x < -kFar ? 0 : normal_cdf(x); }

double normal_quantile(double share) { return -std::numbers::sqrt2 * boost::math::erfc_inv(2 * share); }

// log(exp(p) - exp(q)) for p >= q.
double log_difference(double p, double q) { return p + std::log1p(-std::exp(q - p)); }

}  // namespace

double log_normal_cdf(double x) {
  if (x > -20) return std::log(normal_cdf(x));
  // The asymptotic series of Abramowitz and Stegun, 26.2.12.
  const double square = x * x;
  double term = 1, sum = 1;
  for (int k = 1; k <= 10; ++k) {
    term *= -(2 * k - 1) / square;
    sum += term;
  }
  return -0.5 * square - std::log(-x) - 0.5 * std::log(2 * std::numbers::pi) + std::log(sum);
}

double log_normal_mass(double a, double b) {
  if (!(a < b)) return -std::numeric_limits<double>::infinity();
  if (b <= 0) return log_difference(log_normal_cdf(b), log_normal_cdf(a));
  if (a > 0) return log_difference(log_normal_cdf(-a), log_normal_cdf(-b));
  return a < -kFar && b > kFar ? 0 : std::log1p(-tail_below(a) - tail_below(-b));
}

double normal_between(double a, double b, double place) {
  if (a > 0) return -normal_between(-b, -a, 1 - place);  // where shares are not close to 1
  const double low = normal_cdf(a);
  const double share = low + (normal_cdf(b) - low) * place;
  if (share <= 0) return a;
  if (share >= 1) return b;
  return std::clamp(share > 0.5
                        ? -normal_quantile(normal_cdf(-b) + (normal_cdf(-a) - normal_cdf(-b)) * (1 - place))
                        : normal_quantile(share),
                    a, b);
}

}  // namespace lockstep::sweep
