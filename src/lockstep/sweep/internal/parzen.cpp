#include "lockstep/sweep/internal/parzen.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "lockstep/sweep/internal/normal.h"

namespace lockstep::sweep {
namespace {

constexpr size_t kFullWeights = 25;
constexpr double kNegligible = -50;  // the logarithm of a share that is lost when it is added to 1

// A ramp up to the newest 25 observations, then 1, and 1 for the prior.
std::vector<double> weights_of(size_t count) {
  std::vector<double> weights(count + 1, 1.0);
  if (count >= kFullWeights) {
    const size_t ramp = count - kFullWeights;
    const double first = 1.0 / static_cast<double>(count);
    for (size_t i = 0; i < ramp; ++i)
      weights[i] =
          ramp == 1 ? first : first + (1 - first) * static_cast<double>(i) / static_cast<double>(ramp - 1);
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight /= sum;
  return weights;
}

double half_step(const Parameter& parameter) { return parameter.kind == ParameterKind::integer ? 0.5 : 0; }

std::vector<size_t> order_of(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  return order;
}

// The distance of each value to the farther one of its neighbours.
std::vector<double> neighbour_distances(const std::vector<double>& values, const std::vector<size_t>& order,
                                        double low, double high) {
  const size_t count = values.size();
  std::vector<double> distances(count);
  for (size_t i = 0; i < count; ++i) {
    const double here = values[order[i]];
    const double before = i == 0 ? low : values[order[i - 1]];
    const double after = i + 1 == count ? high : values[order[i + 1]];
    distances[order[i]] = std::max(here - before, after - here);
    if (count >= 2 && i == 0) distances[order[i]] = after - here;
    if (count >= 2 && i + 1 == count) distances[order[i]] = here - before;
  }
  return distances;
}

}  // namespace

Parzen::Parzen(std::vector<Parameter> parameters, const std::vector<std::vector<double>>& observations,
               const ValueOrders& orders)
    : weights_(weights_of(observations.size())) {
  const size_t kernels = weights_.size();
  for (const double weight : weights_) log_weights_.push_back(std::log(weight));
  for (size_t i = 0; i < parameters.size(); ++i) {
    Column column{.parameter = std::move(parameters[i])};
    if (column.parameter.is_number()) {
      std::vector<double> values;
      values.reserve(observations.size());
      for (const auto& observation : observations) values.push_back(observation[i]);
      fill_number(column, values, orders.empty() ? order_of(values) : orders[i]);
    } else {
      for (const auto& observation : observations)
        column.choices.push_back(static_cast<size_t>(observation[i]));
      const double prior = 1 / static_cast<double>(kernels);
      const double sum = 1 + prior * static_cast<double>(column.parameter.choices.size());
      column.own_share = (1 + prior) / sum;
      column.other_share = prior / sum;
    }
    columns_.push_back(std::move(column));
  }
}

void Parzen::fill_number(Column& column, const std::vector<double>& values,
                         const std::vector<size_t>& order) const {
  const Parameter& parameter = column.parameter;
  const double half = half_step(parameter);
  const auto scaled = [&](double value) { return parameter.log ? std::log(value) : value; };
  column.low = scaled(parameter.low - half);
  column.high = scaled(parameter.high + half);
  const double range = column.high - column.low;
  for (std::vector<double>* one : {&column.mu, &column.precision, &column.log_constant})
    one->reserve(weights_.size());
  for (const double value : values) column.mu.push_back(scaled(value));
  column.sigma = neighbour_distances(column.mu, order, column.low, column.high);
  const double least = range / std::min(100.0, 1.0 + static_cast<double>(weights_.size()));
  for (double& sigma : column.sigma) sigma = std::clamp(sigma, least, range);
  column.mu.push_back(0.5 * (column.low + column.high));
  column.sigma.push_back(range);
  const double log_least = std::log(least);
  for (size_t k = 0; k < column.mu.size(); ++k) {
    const double mu = column.mu[k], sigma = column.sigma[k];
    column.precision.push_back(1 / sigma);
    double constant = -log_normal_mass((column.low - mu) / sigma, (column.high - mu) / sigma);
    if (half == 0)
      constant -= (sigma == least ? log_least : std::log(sigma)) + 0.5 * std::log(2 * std::numbers::pi);
    column.log_constant.push_back(constant);
  }
}

double Parzen::sample(const Column& column, size_t kernel, Random& random) const {
  const double place = random.uniform();
  const Parameter& parameter = column.parameter;
  if (!parameter.is_number()) {
    const auto count = parameter.choices.size();
    if (kernel == column.choices.size())  // the prior
      return std::min(static_cast<double>(count) - 1, std::floor(place * static_cast<double>(count)));
    double sum = 0;
    for (size_t choice = 0; choice < count; ++choice) {
      sum += choice == column.choices[kernel] ? column.own_share : column.other_share;
      if (place < sum) return static_cast<double>(choice);
    }
    return static_cast<double>(count - 1);
  }
  const double mu = column.mu[kernel], sigma = column.sigma[kernel];
  double value = mu + sigma * normal_between((column.low - mu) / sigma, (column.high - mu) / sigma, place);
  if (parameter.log) value = std::exp(value);
  if (parameter.kind == ParameterKind::integer) value = std::round(value);
  return std::clamp(value, parameter.low, parameter.high);
}

std::vector<double> Parzen::sample(Random& random) const {
  const double place = random.uniform();
  size_t kernel = 0;
  for (double sum = weights_[0]; place >= sum && kernel + 1 < weights_.size(); sum += weights_[kernel])
    ++kernel;
  std::vector<double> point;
  for (const Column& column : columns_) point.push_back(sample(column, kernel, random));
  return point;
}

void Parzen::add_log_densities(const Column& column, double value, std::vector<double>& sums) const {
  const Parameter& parameter = column.parameter;
  const size_t kernels = sums.size();
  if (!parameter.is_number()) {
    const double own = std::log(column.own_share), other = std::log(column.other_share);
    for (size_t k = 0; k + 1 < kernels; ++k)
      sums[k] += column.choices[k] == static_cast<size_t>(value) ? own : other;
    sums[kernels - 1] -= std::log(static_cast<double>(parameter.choices.size()));
    return;
  }
  if (const double half = half_step(parameter); half > 0) {
    const double left = parameter.log ? std::log(value - half) : value - half;
    const double right = parameter.log ? std::log(value + half) : value + half;
    for (size_t k = 0; k < kernels; ++k)
      sums[k] += column.log_constant[k] + log_normal_mass((left - column.mu[k]) / column.sigma[k],
                                                          (right - column.mu[k]) / column.sigma[k]);
    return;
  }
  const double scaled = parameter.log ? std::log(value) : value;
  const double *mu = column.mu.data(), *precision = column.precision.data(),
               *constant = column.log_constant.data();
  double* const sum = sums.data();
  for (size_t k = 0; k < kernels; ++k) {
    const double z = (scaled - mu[k]) * precision[k];
    sum[k] += constant[k] - 0.5 * z * z;
  }
}

std::vector<double> Parzen::log_densities(const std::vector<std::vector<double>>& points) const {
  std::vector<double> densities;
  for (const std::vector<double>& point : points) {
    std::vector<double> sums = log_weights_;
    for (size_t i = 0; i < columns_.size(); ++i) add_log_densities(columns_[i], point[i], sums);
    const double most = *std::max_element(sums.begin(), sums.end());
    double sum = 0;
    for (const double one : sums) {
      if (one - most > kNegligible) sum += std::exp(one - most);
    }
    densities.push_back(std::isinf(most) ? most : most + std::log(sum));
  }
  return densities;
}

}  // namespace lockstep::sweep
