#include "lockstep/sweep/internal/gaussian_process.h"

#include <cmath>
#include <limits>
#include <utility>

#include <Eigen/Cholesky>

#include "lockstep/base/error.h"
#include "lockstep/sweep/internal/ascent.h"

namespace lockstep::sweep {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// Of the priors: 0.1 / w + 0.1 w for an inverse squared length w, Gamma(2, 1) of the scale, Gamma(1.1, 30) of
// the noise.
constexpr double kLengthPrior = 0.1;
constexpr double kNoiseShape = 0.1, kNoiseRate = 30;

KernelParameters parameters_at(const VectorXd& logarithms) {
  const Index count = logarithms.size() - 2;
  return {.inverse_squared_lengths = logarithms.head(count).array().exp().matrix(),
          .scale = std::exp(logarithms[count]),
          .noise = std::exp(logarithms[count + 1]) + kLeastNoise};
}

}  // namespace

double matern(double squared_distance) {
  const double root = std::sqrt(5 * squared_distance);
  return std::exp(-root) * (5.0 / 3.0 * squared_distance + root + 1);
}

double matern_slope(double squared_distance) {
  const double root = std::sqrt(5 * squared_distance);
  return -5.0 / 6.0 * (root + 1) * std::exp(-root);
}

Kernel::Kernel(KernelParameters parameters, std::vector<bool> is_categorical)
    : parameters_(std::move(parameters)), is_categorical_(std::move(is_categorical)) {}

double Kernel::squared_difference(Index i, double a, double b) const {
  if (is_categorical(i)) return a == b ? 0 : 1;
  return (a - b) * (a - b);
}

MatrixXd Kernel::squared_distances(const Points& a, const Points& b) const {
  MatrixXd distances = MatrixXd::Zero(a.cols(), b.cols());
  for (Index i = 0; i < a.rows(); ++i) {
    const double weight = parameters_.inverse_squared_lengths[i];
    const VectorXd row = a.row(i).transpose();
    for (Index column = 0; column < b.cols(); ++column) {
      const double value = b(i, column);
      if (is_categorical(i)) {
        distances.col(column).array() +=
            (row.array() != value).select(weight, Eigen::ArrayXd::Zero(row.size()));
      } else {
        distances.col(column).array() += weight * (row.array() - value).square();
      }
    }
  }
  return distances;
}

MatrixXd Kernel::covariances(const Points& a, const Points& b) const {
  return parameters_.scale * squared_distances(a, b).unaryExpr(&matern);
}

GaussianProcess::GaussianProcess(Kernel kernel, Points points, const MatrixXd& values, const VectorXd& noises)
    : kernel_(std::move(kernel)), points_(std::move(points)) {
  MatrixXd covariances = kernel_.covariances(points_, points_);
  covariances.diagonal() += noises;
  const Eigen::LLT<MatrixXd> factored(covariances);
  if (factored.info() != Eigen::Success)
    throw Error(ErrorCode::internal, "the covariances of the trials are not positive definite");
  factor_ = factored.matrixL();
  weights_ = solve(values);
}

MatrixXd GaussianProcess::solve(const MatrixXd& columns) const {
  const auto lower = factor_.triangularView<Eigen::Lower>();
  return lower.transpose().solve(lower.solve(columns));
}

MatrixXd GaussianProcess::means(const MatrixXd& covariances) const {
  return weights_.transpose() * covariances;
}

VectorXd GaussianProcess::variances(const MatrixXd& covariances) const {
  const MatrixXd halves = factor_.triangularView<Eigen::Lower>().solve(covariances);
  return (kernel_.parameters().scale - halves.colwise().squaredNorm().array()).max(0.0).matrix().transpose();
}

MatrixXd GaussianProcess::joint_covariances(const Points& others, const MatrixXd& covariances) const {
  const MatrixXd halves = factor_.triangularView<Eigen::Lower>().solve(covariances);
  return kernel_.covariances(others, others) - halves.transpose() * halves;
}

double log_posterior_of(const Kernel& kernel, const Points& points, const VectorXd& values,
                        VectorXd* gradient) {
  const KernelParameters& parameters = kernel.parameters();
  const auto& lengths = parameters.inverse_squared_lengths;
  const Index parameter_count = lengths.size(), count = points.cols();
  const MatrixXd distances = kernel.squared_distances(points, points);
  const MatrixXd clean = parameters.scale * distances.unaryExpr(&matern);
  MatrixXd noisy = clean;
  noisy.diagonal().array() += parameters.noise;
  const Eigen::LLT<MatrixXd> factored(noisy);
  if (factored.info() != Eigen::Success) return -std::numeric_limits<double>::infinity();
  const VectorXd weights = factored.solve(values);
  const MatrixXd& lower = factored.matrixLLT();
  double sum = -lower.diagonal().array().log().sum() - 0.5 * values.dot(weights);
  sum -= kLengthPrior * (lengths.array().inverse() + lengths.array()).sum();
  sum += std::log(parameters.scale) - parameters.scale;
  sum += kNoiseShape * std::log(parameters.noise) - kNoiseRate * parameters.noise;
  if (gradient == nullptr) return sum;

  // The derivative by an element of the covariances is half of weights weights' - their inverse.
  const MatrixXd inverse = factored.solve(MatrixXd::Identity(count, count));
  const MatrixXd by_covariance = 0.5 * (weights * weights.transpose() - inverse);
  const MatrixXd by_distance =
      parameters.scale * by_covariance.cwiseProduct(distances.unaryExpr(&matern_slope));
  gradient->resize(parameter_count + 2);
  for (Index i = 0; i < parameter_count; ++i) {
    double slope = 0;
    for (Index b = 0; b < count; ++b) {
      for (Index a = b + 1; a < count; ++a)
        slope += by_distance(a, b) * kernel.squared_difference(i, points(i, a), points(i, b));
    }
    (*gradient)[i] = lengths[i] * 2 * slope + kLengthPrior * (1 / lengths[i] - lengths[i]);
  }
  (*gradient)[parameter_count] = by_covariance.cwiseProduct(clean).sum() + 1 - parameters.scale;
  (*gradient)[parameter_count + 1] = (parameters.noise - kLeastNoise) *
                                     (by_covariance.trace() + kNoiseShape / parameters.noise - kNoiseRate);
  return sum;
}

Kernel fit_kernel(const Points& points, const VectorXd& values, const std::vector<bool>& is_categorical) {
  const Index count = points.rows() + 2;
  VectorXd low = VectorXd::Constant(count, -10), high = VectorXd::Constant(count, 10),
           start = VectorXd::Zero(count);
  low[count - 1] = -20;  // of the noise
  const auto goal = [&](const VectorXd& logarithms, VectorXd& gradient) {
    return log_posterior_of(Kernel(parameters_at(logarithms), is_categorical), points, values, &gradient);
  };
  const VectorXd best = ascend(goal, start, low, high, {.least_gain = 1e-4, .most_steps = 200}).place;
  return {parameters_at(best), is_categorical};
}

}  // namespace lockstep::sweep
