#include "lockstep/sweep/internal/ascent.h"

#include <cmath>
#include <memory>

#include <nlopt.h>

#include "lockstep/base/error.h"

namespace lockstep::sweep {
namespace {

constexpr double kFailed = -1e100;  // where the function has no value; NLopt wants finite ones

struct Call {
  const SmoothFunction& function;
  Ascent best{};
  Eigen::VectorXd gradient{};

  double at(const Eigen::VectorXd& place) {
    gradient = Eigen::VectorXd::Zero(place.size());
    const double value = function(place, gradient);
    if (!std::isfinite(value) || !gradient.allFinite()) {
      gradient.setZero();
      return kFailed;
    }
    if (best.place.size() == 0 || value > best.value) best = {place, value};
    return value;
  }
};

double evaluate(unsigned count, const double* place, double* gradient, void* data) {
  auto& call = *static_cast<Call*>(data);
  const auto size = static_cast<Eigen::Index>(count);
  const double value = call.at(Eigen::Map<const Eigen::VectorXd>(place, size));
  if (gradient != nullptr) Eigen::Map<Eigen::VectorXd>(gradient, size) = call.gradient;
  return value;
}

}  // namespace

Ascent ascend(const SmoothFunction& function, const Eigen::VectorXd& start, const Eigen::VectorXd& low,
              const Eigen::VectorXd& high, const AscentOptions& options) {
  Call call{function};
  call.best = {start, call.at(start)};
  if (start.size() == 0) return call.best;
  const std::unique_ptr<nlopt_opt_s, void (*)(nlopt_opt)> search(
      nlopt_create(NLOPT_LD_LBFGS, static_cast<unsigned>(start.size())), &nlopt_destroy);
  if (!search) throw Error(ErrorCode::internal, "NLopt cannot begin a search");
  nlopt_set_max_objective(search.get(), &evaluate, &call);
  nlopt_set_lower_bounds(search.get(), low.data());
  nlopt_set_upper_bounds(search.get(), high.data());
  nlopt_set_ftol_abs(search.get(), options.least_gain);
  nlopt_set_maxeval(search.get(), options.most_steps);
  Eigen::VectorXd place = start;
  double value = 0;
  // It also ends where rounding hides further gains; the best place is known in each case.
  nlopt_optimize(search.get(), place.data(), &value);
  return call.best;
}

}  // namespace lockstep::sweep
