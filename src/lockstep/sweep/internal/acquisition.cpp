#include "lockstep/sweep/internal/acquisition.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include <Eigen/Cholesky>

#include "lockstep/base/error.h"
#include "lockstep/sweep/internal/normal.h"
#include "lockstep/sweep/internal/sobol.h"

namespace lockstep::sweep {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kLeastVariance = 1e-12;

double log_normal_density(double z) { return -0.5 * z * z - 0.5 * std::log(2 * std::numbers::pi); }

// The logarithm of the mean of exp(x).
double log_mean_exp(const VectorXd& values) {
  const double most = values.maxCoeff();
  if (!std::isfinite(most)) return most;
  return most + std::log((values.array() - most).exp().mean());
}

}  // namespace

double log_mean_above(double z) {
  if (z >= -25)
    return std::log(0.5 * z * std::erfc(-z / std::numbers::sqrt2) + std::exp(log_normal_density(z)));
  // The asymptotic series of 1 + z cdf(z) / pdf(z): 1 / z^2 - 3 / z^4 + 15 / z^6 - ...
  const double square = z * z;
  double term = 1 / square, sum = term;
  for (int k = 1; k <= 8; ++k) {
    term *= -(2 * k + 1) / square;
    sum += term;
  }
  return log_normal_density(z) + std::log(sum);
}

Acquisition::Acquisition(GaussianProcess process, VectorXd thresholds)
    : process_(std::move(process)), thresholds_(std::move(thresholds)) {}

VectorXd Acquisition::values(const Points& points) const {
  const MatrixXd covariances = process_.kernel().covariances(process_.points(), points);
  const MatrixXd means = process_.means(covariances);
  const VectorXd variances = process_.variances(covariances);
  VectorXd values(points.cols()), of_samples(thresholds_.size());
  for (Index column = 0; column < points.cols(); ++column) {
    const double deviation = std::sqrt(variances[column] + kLeastVariance);
    for (Index sample = 0; sample < thresholds_.size(); ++sample)
      of_samples[sample] = log_mean_above((means(sample, column) - thresholds_[sample]) / deviation);
    values[column] = log_mean_exp(of_samples) + std::log(deviation);
  }
  return values;
}

double Acquisition::value_and_gradient(const VectorXd& point, VectorXd& gradient) const {
  const Kernel& kernel = process_.kernel();
  const Points& points = process_.points();
  const VectorXd distances = kernel.squared_distances(points, point);
  const double scale = kernel.parameters().scale;
  const VectorXd covariances = scale * distances.unaryExpr(&matern);
  const VectorXd means = process_.means(covariances);
  const VectorXd solved = process_.solve(covariances);
  const double variance = std::max(0.0, scale - covariances.dot(solved)) + kLeastVariance;
  const double deviation = std::sqrt(variance);

  const Index samples = thresholds_.size();
  VectorXd of_samples(samples), by_mean(samples);
  VectorXd by_deviation(samples);
  for (Index sample = 0; sample < samples; ++sample) {
    const double z = (means[sample] - thresholds_[sample]) / deviation;
    of_samples[sample] = log_mean_above(z);
    by_mean[sample] = std::exp(log_normal_cdf(z) - of_samples[sample]) / deviation;
    by_deviation[sample] = std::exp(log_normal_density(z) - of_samples[sample]) / deviation;
  }
  const double mean = log_mean_exp(of_samples);
  const VectorXd shares =
      ((of_samples.array() - mean).exp() / static_cast<double>(samples)).matrix();  // of the improvement
  // A change of the deviation by its variance, and of the variance by the covariances.
  const double by_variance = shares.dot(by_deviation) / (2 * deviation);
  const VectorXd by_covariance = process_.weights() * shares.cwiseProduct(by_mean) - 2 * by_variance * solved;
  const VectorXd by_distance = by_covariance.cwiseProduct(scale * distances.unaryExpr(&matern_slope));
  gradient.resize(point.size());
  for (Index i = 0; i < point.size(); ++i) {
    const VectorXd differences = (point[i] - points.row(i).array()).matrix().transpose();
    gradient[i] = kernel.is_categorical(i)
                      ? 0
                      : 2 * kernel.parameters().inverse_squared_lengths[i] * by_distance.dot(differences);
  }
  return mean + std::log(deviation);
}

Acquisition make_acquisition(const Kernel& kernel, const Points& points, const VectorXd& values,
                             const Points& pending, int64_t samples, Random& random) {
  const VectorXd noises = VectorXd::Constant(points.cols(), kernel.parameters().noise);
  const double best = values.maxCoeff();
  GaussianProcess known(kernel, points, values, noises);
  const Index count = pending.cols();
  if (count == 0) return {std::move(known), VectorXd::Constant(1, best)};

  const MatrixXd covariances = kernel.covariances(points, pending);
  const MatrixXd means = known.means(covariances).transpose();  // [pending, 1]
  MatrixXd joint = known.joint_covariances(pending, covariances);
  joint.diagonal().array() += kLeastNoise;
  const Eigen::LLT<MatrixXd> factored(joint);
  if (factored.info() != Eigen::Success)
    throw Error(ErrorCode::internal, "the covariances of the running trials are not positive definite");
  SobolNumbers numbers(static_cast<size_t>(count), random);
  MatrixXd draws(count, samples);
  for (Index sample = 0; sample < samples; ++sample) {
    const std::vector<double> places = numbers.at(sample);
    for (Index i = 0; i < count; ++i)
      draws(i, sample) = normal_between(-HUGE_VAL, HUGE_VAL, places[static_cast<size_t>(i)]);
  }
  const MatrixXd drawn = (factored.matrixL() * draws).colwise() + means.col(0);  // [pending, samples]

  Points all(points.rows(), points.cols() + count);
  all << points, pending;
  MatrixXd all_values(all.cols(), samples);
  all_values << values.replicate(1, samples), drawn;
  VectorXd all_noises(all.cols());
  all_noises << noises, VectorXd::Constant(count, kLeastNoise);
  const VectorXd thresholds = drawn.colwise().maxCoeff().array().max(best).matrix().transpose();
  return {GaussianProcess(kernel, std::move(all), all_values, all_noises), thresholds};
}

}  // namespace lockstep::sweep
