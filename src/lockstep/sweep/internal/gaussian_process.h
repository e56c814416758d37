// A Gaussian process with a Matern-5/2 kernel and a length for each parameter (Rasmussen and Williams 2006).
// The kernel, the priors of its parameters and the least noise are those of Optuna 5 (_gp/gp.py,
// _gp/prior.py).
#pragma once

#include <vector>

#include <Eigen/Core>

namespace lockstep::sweep {

/// Points as a process sees them: a column each, a row for each parameter.
using Points = Eigen::MatrixXd;

struct KernelParameters {
  Eigen::VectorXd inverse_squared_lengths{};  ///< [parameters]
  double scale = 1;                           ///< the variance of the function
  double noise = 1;                           ///< the variance of what is added to its values
};

inline constexpr double kLeastNoise = 1e-6;

/// The distance of two points in a parameter is their difference, or 0 or 1 where it is categorical.
class Kernel {
 public:
  Kernel(KernelParameters parameters, std::vector<bool> is_categorical);

  const KernelParameters& parameters() const { return parameters_; }
  bool is_categorical(Eigen::Index i) const { return is_categorical_[static_cast<size_t>(i)]; }

  /// [a, b]
  Eigen::MatrixXd covariances(const Points& a, const Points& b) const;
  /// The squared distances of two points, with the lengths: what the kernel is a function of.
  Eigen::MatrixXd squared_distances(const Points& a, const Points& b) const;
  /// The squared difference of two values of parameter i, without its length.
  double squared_difference(Eigen::Index i, double a, double b) const;

 private:
  KernelParameters parameters_;
  std::vector<bool> is_categorical_;
};

/// The Matern-5/2 function of a squared distance, 1 at 0.
double matern(double squared_distance);
/// Its derivative by the squared distance.
double matern_slope(double squared_distance);

/// What is known of a function after some of its values. A value.
class GaussianProcess {
 public:
  /// values [points, samples]: several sets of values of the same points. noises [points]: variances. Throws
  /// Error if the points and noises have no Cholesky factor.
  GaussianProcess(Kernel kernel, Points points, const Eigen::MatrixXd& values, const Eigen::VectorXd& noises);

  const Kernel& kernel() const { return kernel_; }
  const Points& points() const { return points_; }
  const Eigen::MatrixXd& weights() const {
    return weights_;
  }  ///< [points, samples]; a mean is a product with them

  /// covariances [points, others] of the points with others -> [samples, others]
  Eigen::MatrixXd means(const Eigen::MatrixXd& covariances) const;
  /// -> [others], not below 0
  Eigen::VectorXd variances(const Eigen::MatrixXd& covariances) const;
  /// -> [others, others]
  Eigen::MatrixXd joint_covariances(const Points& others, const Eigen::MatrixXd& covariances) const;
  /// The inverse of the covariance matrix, multiplied with these columns.
  Eigen::MatrixXd solve(const Eigen::MatrixXd& columns) const;

 private:
  Kernel kernel_;
  Points points_;
  Eigen::MatrixXd factor_;  // lower triangle
  Eigen::MatrixXd weights_;
};

/// The logarithm of the likelihood of these values, without its constant, and of the priors of the kernel's
/// parameters; -inf if there is no Cholesky factor. gradient: by the logarithms of the inverse squared
/// lengths, of the scale, and of the noise above the least one.
double log_posterior_of(const Kernel& kernel, const Points& points, const Eigen::VectorXd& values,
                        Eigen::VectorXd* gradient);

/// The kernel for which that is highest.
Kernel fit_kernel(const Points& points, const Eigen::VectorXd& values,
                  const std::vector<bool>& is_categorical);

}  // namespace lockstep::sweep
