#include "lockstep/train/update/rate_test.h"

#include <algorithm>
#include <cmath>

namespace lockstep::train {
namespace {

constexpr int64_t kTestSteps = 36;
constexpr int64_t kLeastRuns = 8;     // tests that a run must be as long as
constexpr double kSpan = 32;          // from the middle to either end
constexpr double kBelowEdge = 0.1;    // of the largest rate that is still good
constexpr double kKept = 0.8;         // of the smoothed loss in each step, 5 steps on average
constexpr double kRateExploded = 4;   // times the lowest smoothed loss, as in fastai's lr_find
constexpr double kNearlyAsLow = 0.1;  // of what the loss has fallen
constexpr double kNoise = 0.02;       // of the first loss

// Each a mean of all before it, with weights that fall by kKept.
std::vector<double> smoothed(const std::vector<double>& losses) {
  std::vector<double> means;
  double sum = 0, weight = 0;
  for (const double loss : losses) {
    if (!std::isfinite(loss)) break;
    sum = kKept * sum + (1 - kKept) * loss;
    weight = kKept * weight + (1 - kKept);
    means.push_back(sum / weight);
  }
  return means;
}

// To two digits, so that it can be given as an option.
double rounded_rate(double rate) {
  const double digits = std::pow(10, 1 - std::floor(std::log10(rate)));
  return std::round(rate * digits) / digits;
}

}  // namespace

int64_t rate_test_steps(int64_t total_steps) {
  return total_steps >= kLeastRuns * kTestSteps ? kTestSteps : 0;
}

double RateTest::rate_at(int64_t step) const {
  const double share = static_cast<double>(step) / static_cast<double>(std::max<int64_t>(1, steps - 1));
  return middle * std::pow(kSpan, 2 * share - 1);
}

bool RateTest::is_over(const std::vector<double>& losses) const {
  if (std::ssize(losses) >= steps || !std::isfinite(losses.back())) return true;
  const std::vector<double> means = smoothed(losses);
  return means.back() > kRateExploded * *std::min_element(means.begin(), means.end());
}

double RateTest::chosen(const std::vector<double>& losses) const {
  const std::vector<double> means = smoothed(losses);
  if (means.empty()) return rounded_rate(rate_at(0));
  const double first = losses.front(), least = *std::min_element(means.begin(), means.end());
  const double most = least + std::max(kNearlyAsLow * (first - least), kNoise * first);
  int64_t edge = 0;
  for (int64_t i = 0; i < std::ssize(means); ++i) {
    if (means[static_cast<size_t>(i)] <= most) edge = i;
  }
  return rounded_rate(std::max(rate_at(0), kBelowEdge * rate_at(edge)));
}

}  // namespace lockstep::train
