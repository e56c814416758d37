#include "lockstep/sweep/importance.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "lockstep/sweep/internal/normal.h"
#include "lockstep/sweep/internal/row_value.h"

namespace lockstep::sweep {
namespace {

constexpr double kTopShare = 0.1;
constexpr size_t kMostSteps = 50;
constexpr size_t kLeastTrials = 2;  // of those for which a parameter counts

// A trial that counts: its value of the parameter, and whether it is among the best.
struct Value {
  double value = 0;
  bool is_top = false;
};

size_t steps_of(const Parameter& parameter) {
  if (!parameter.is_number()) return parameter.choices.size();
  if (parameter.kind == ParameterKind::real) return kMostSteps;
  const double count = parameter.high - parameter.low + 1;
  const double steps = parameter.log ? std::ceil(std::log(count) / std::log(2)) + 1 : count;
  return static_cast<size_t>(std::min(steps, static_cast<double>(kMostSteps)));
}

// How many of the values lie nearest to each step between the bounds; a tie goes to the lower step.
std::vector<int64_t> counts_of(const Parameter& parameter, const std::vector<double>& values) {
  std::vector<int64_t> counts(steps_of(parameter));
  for (const double value : values) {
    double place = value;
    if (parameter.is_number()) {
      const auto scaled = [&](double x) { return parameter.log ? std::log(x) : x; };
      const double low = scaled(parameter.low), high = scaled(parameter.high);
      const double step = (high - low) / static_cast<double>(counts.size() - 1);
      place = std::ceil((scaled(value) - low) / step - 0.5);
    }
    ++counts[static_cast<size_t>(std::clamp(place, 0.0, static_cast<double>(counts.size() - 1)))];
  }
  return counts;
}

// Scott's rule (1992), for observations that are steps with a count each.
double bandwidth(const std::vector<double>& steps, const std::vector<double>& counts) {
  const double sum = std::accumulate(counts.begin(), counts.end(), 0.0);
  double mean = 0, square = 0;
  for (size_t i = 0; i < steps.size(); ++i) mean += steps[i] * counts[i] / sum;
  for (size_t i = 0; i < steps.size(); ++i) square += (steps[i] - mean) * (steps[i] - mean) * counts[i];
  const double deviation = std::sqrt(square / std::max(1.0, sum - 1));
  std::vector<double> up_to(counts.size());
  std::partial_sum(counts.begin(), counts.end(), up_to.begin());
  const auto first =
      static_cast<size_t>(std::lower_bound(up_to.begin(), up_to.end(), std::floor(sum / 4)) - up_to.begin());
  const auto third = static_cast<size_t>(
      std::upper_bound(up_to.begin(), up_to.end(), std::floor(sum * 3 / 4)) - up_to.begin());
  const double between_quartiles = steps[std::min(steps.size() - 1, third)] - steps[first];
  const double sigma = 1.059 * std::min(between_quartiles / 1.34, deviation) * std::pow(sum, -0.2);
  return std::max(sigma, 0.5 / 1.64);  // 90 % of a kernel lies in its step
}

// The share of a normal at a step, of those at all steps.
double step_mass(double step, double mean, double sigma, double last) {
  return std::exp(log_normal_mass((step - 0.5 - mean) / sigma, (step + 0.5 - mean) / sigma) -
                  log_normal_mass((-0.5 - mean) / sigma, (last + 0.5 - mean) / sigma));
}

// The Parzen estimate of the distribution over the steps, with one observation more that is spread over all.
std::vector<double> distribution(const Parameter& parameter, const std::vector<double>& values) {
  const std::vector<int64_t> all = counts_of(parameter, values);
  std::vector<double> steps, counts;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i] == 0) continue;
    steps.push_back(static_cast<double>(i));
    counts.push_back(static_cast<double>(all[i]));
  }
  const double sum = std::accumulate(counts.begin(), counts.end(), 0.0) + 1;
  const double size = static_cast<double>(all.size()), last = size - 1;
  std::vector<double> shares(all.size(), 1e-12);
  const double sigma = parameter.is_number() ? bandwidth(steps, counts) : 0;
  const double prior = 1 / static_cast<double>(steps.size() + 1);
  for (size_t x = 0; x < shares.size(); ++x) {
    const auto at = static_cast<double>(x);
    for (size_t i = 0; i < steps.size(); ++i) {
      const double mass = parameter.is_number() ? step_mass(at, steps[i], sigma, last)
                                                : (prior + (steps[i] == at ? 1 : 0)) / (1 + prior * size);
      shares[x] += counts[i] / sum * mass;
    }
    shares[x] += (parameter.is_number() ? step_mass(at, last / 2, last + 1, last) : 1 / size) / sum;
  }
  return shares;
}

double pearson_divergence(const Parameter& parameter, const std::vector<Value>& values) {
  std::vector<double> top, all;
  for (const Value& one : values) {
    all.push_back(one.value);
    if (one.is_top) top.push_back(one.value);
  }
  const std::vector<double> of_top = distribution(parameter, top), of_all = distribution(parameter, all);
  double sum = 0;
  for (size_t i = 0; i < of_all.size(); ++i) {
    const double ratio = of_top[i] / of_all[i] - 1;
    sum += of_all[i] * ratio * ratio;
  }
  return sum;
}

// The loss of the last trial of the best tenth.
double cutoff(const std::vector<const Row*>& rows, double sign) {
  std::vector<double> losses;
  for (const Row* row : rows) losses.push_back(sign * *row->value);
  const auto last = static_cast<size_t>(std::ceil(kTopShare * static_cast<double>(losses.size()))) - 1;
  std::nth_element(losses.begin(), losses.begin() + static_cast<std::ptrdiff_t>(last), losses.end());
  return losses[last];
}

}  // namespace

std::vector<Importance> importances(const Table& table) {
  std::vector<const Row*> rows;
  for (const Row& row : table.rows) {
    if (is_complete(row)) rows.push_back(&row);
  }
  std::vector<Importance> found;
  if (rows.empty()) return found;
  const double sign = table.spec.maximizes() ? -1 : 1, most = cutoff(rows, sign);
  const auto is_top = [&](const Row* row) { return sign * *row->value <= most; };
  const auto tops = static_cast<double>(std::count_if(rows.begin(), rows.end(), is_top));
  const auto count = static_cast<double>(rows.size());
  for (const Parameter& parameter : table.spec.space.parameters()) {
    std::vector<Value> values;
    for (const Row* row : rows) {
      if (const auto value = value_of(parameter, *row)) values.push_back({*value, is_top(row)});
    }
    if (values.empty()) continue;
    Importance one{.parameter = parameter.name, .trials = std::ssize(values)};
    const auto tops_here = static_cast<double>(
        std::count_if(values.begin(), values.end(), [](const Value& value) { return value.is_top; }));
    if (rows.size() > 1 && !parameter.is_single() && values.size() >= kLeastTrials && tops_here > 0) {
      const double of_top = tops_here / tops, of_all = static_cast<double>(values.size()) / count;
      one.divergence =
          of_top * of_top / of_all * pearson_divergence(parameter, values) * (tops / count) * (tops / count);
    }
    found.push_back(std::move(one));
  }
  double sum = 0;
  for (const Importance& one : found) sum += one.divergence;
  for (Importance& one : found) one.share = sum > 0 ? one.divergence / sum : 0;
  std::stable_sort(found.begin(), found.end(),
                   [](const Importance& a, const Importance& b) { return a.divergence > b.divergence; });
  return found;
}

}  // namespace lockstep::sweep
