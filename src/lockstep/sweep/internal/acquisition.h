// What a next trial promises: the logarithm of the expected improvement (Ament et al. 2023), and where it is
// highest.
#pragma once

#include <vector>

#include "lockstep/base/seed.h"
#include "lockstep/sweep/internal/coordinates.h"
#include "lockstep/sweep/internal/gaussian_process.h"

namespace lockstep::sweep {

/// The logarithm of the mean of max(0, x + z) over a standard normal x.
double log_mean_above(double z);

/// The expected improvement of a value over thresholds. Trials that have no value yet are points of the
/// process with several sets of values that they may have (Snoek et al. 2012); each set has a threshold of
/// its own, and the improvement is the mean over the sets.
class Acquisition {
 public:
  /// thresholds [samples of the process]
  Acquisition(GaussianProcess process, Eigen::VectorXd thresholds);

  /// -> [points]
  Eigen::VectorXd values(const Points& points) const;
  double value_and_gradient(const Eigen::VectorXd& point, Eigen::VectorXd& gradient) const;
  const Kernel& kernel() const { return process_.kernel(); }

 private:
  GaussianProcess process_;
  Eigen::VectorXd thresholds_;
};

/// A process with `values` at `points`, and one set of values for each of `samples` draws of what the points
/// of `pending` may have. Larger values are better.
Acquisition make_acquisition(const Kernel& kernel, const Points& points, const Eigen::VectorXd& values,
                             const Points& pending, int64_t samples, Random& random);

/// The points of a space at which the acquisition is highest, the best first: many points that are spread
/// evenly, of which the best are improved by ascent in the real parameters and by trying values of each
/// parameter in turn. `known`: good points to begin with.
std::vector<Point> best_points(const Coordinates& coordinates, const Acquisition& acquisition,
                               const Points& known, Random& random);

}  // namespace lockstep::sweep
