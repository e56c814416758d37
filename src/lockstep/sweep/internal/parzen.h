// A Parzen estimator over several parameters at once: a mixture of products, one for each observation and one
// for the prior. Its rules are those of Optuna 5 (samplers/_tpe/parzen_estimator.py) with the default
// options.
#pragma once

#include <vector>

#include "lockstep/base/seed.h"
#include "lockstep/sweep/space.h"

namespace lockstep::sweep {

/// For each parameter that is a number the observations by their values, the earlier one first of equal
/// values.
using ValueOrders = std::vector<std::vector<size_t>>;

class Parzen {
 public:
  /// observations: a value of each of the parameters, in the order of the trials. The last 25 count fully,
  /// earlier ones less. orders: of the observations, from a caller that knows them; empty: they are sorted
  /// here.
  Parzen(std::vector<Parameter> parameters, const std::vector<std::vector<double>>& observations,
         const ValueOrders& orders = {});

  std::vector<double> sample(Random& random) const;
  /// The logarithms of the density at these points.
  std::vector<double> log_densities(const std::vector<std::vector<double>>& points) const;

 private:
  // Of one parameter: a normal between bounds for each kernel, or a share of each choice.
  struct Column {
    Parameter parameter;
    double low = 0, high = 0;            // of the normals, logarithms where the parameter is logarithmic
    std::vector<double> mu{}, sigma{};   // of a number
    std::vector<double> precision{};     // of a number: 1 / sigma
    std::vector<double> log_constant{};  // of a number: what does not depend on the point
    std::vector<size_t> choices{};       // of choices: the observed one
    double own_share = 0, other_share = 0;
  };
  void fill_number(Column& column, const std::vector<double>& values, const std::vector<size_t>& order) const;
  void add_log_densities(const Column& column, double value, std::vector<double>& sums) const;
  double sample(const Column& column, size_t kernel, Random& random) const;

  std::vector<Column> columns_;
  std::vector<double> weights_;  // of the kernels; the last is the prior
  std::vector<double> log_weights_;
};

}  // namespace lockstep::sweep
