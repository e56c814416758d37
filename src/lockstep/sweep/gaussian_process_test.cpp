// The search with a Gaussian process: its parts against Optuna 5's (gaussian_process_values.py), and what it
// finds.
#include <cmath>
#include <functional>
#include <set>

#include <gmock/gmock.h>

#include "lockstep/base/file.h"
#include "lockstep/sweep/internal/acquisition.h"
#include "lockstep/sweep/internal/power_transform.h"
#include "lockstep/sweep/sampler.h"

namespace lockstep::sweep {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kClose = 1e-9;

VectorXd vector_of(const Json& json) {
  const auto values = json.get<std::vector<double>>();
  return Eigen::Map<const VectorXd>(values.data(), static_cast<Index>(values.size()));
}

// A row of the list is a column.
MatrixXd columns_of(const Json& json) {
  MatrixXd matrix(static_cast<Index>(json[0].size()), static_cast<Index>(json.size()));
  for (size_t k = 0; k < json.size(); ++k) matrix.col(static_cast<Index>(k)) = vector_of(json[k]);
  return matrix;
}

class GaussianProcesses : public testing::Test {
 protected:
  void SetUp() override {
    const char* source = std::getenv("LOCKSTEP_SOURCE");
    if (source == nullptr) GTEST_SKIP() << "LOCKSTEP_SOURCE is not set";
    values_ =
        Json::parse(read_file(std::string(source) + "/src/lockstep/sweep/gaussian_process_values.json"));
  }
  MatrixXd points(const char* name) const { return columns_of(values_[name]); }
  VectorXd vector(const char* name) const { return vector_of(values_[name]); }
  Kernel kernel() const {
    return {{.inverse_squared_lengths = vector("inverse_squared_lengths"),
             .scale = values_["scale"].get<double>(),
             .noise = values_["noise"].get<double>()},
            {false, false, false, true}};
  }
  GaussianProcess process() const {
    return {kernel(), points("known"), vector("values"), VectorXd::Constant(12, kernel().parameters().noise)};
  }
  static void expect_close(const MatrixXd& found, const MatrixXd& expected) {
    ASSERT_EQ(found.rows(), expected.rows());
    ASSERT_EQ(found.cols(), expected.cols());
    EXPECT_LT((found - expected).cwiseAbs().maxCoeff(), kClose) << found << "\n\n" << expected;
  }
  Json values_{};
};

TEST_F(GaussianProcesses, HaveOptunasKernelAndPosterior) {
  const MatrixXd covariances = kernel().covariances(points("known"), points("others"));
  expect_close(covariances, columns_of(values_["covariances"]));
  expect_close(process().means(covariances).transpose(), vector("means"));
  expect_close(process().variances(covariances), vector("variances"));
}

TEST_F(GaussianProcesses, HaveOptunasLikelihoodAndPriors) {
  VectorXd gradient;
  EXPECT_NEAR(log_posterior_of(kernel(), points("known"), vector("values"), &gradient),
              values_["log_posterior"].get<double>(), kClose);
  expect_close(gradient, vector("log_posterior_gradient"));
}

TEST_F(GaussianProcesses, HaveOptunasExpectedImprovement) {
  const VectorXd z = vector("z"), expected = vector("log_mean_above");
  for (Index k = 0; k < z.size(); ++k)
    EXPECT_NEAR(log_mean_above(z[k]), expected[k], kClose * std::max(1.0, std::abs(expected[k]))) << z[k];
  const Acquisition acquisition(process(), VectorXd::Constant(1, vector("values").maxCoeff()));
  const MatrixXd others = points("others"), gradients = points("log_improvement_gradients");
  expect_close(acquisition.values(others), vector("log_improvements"));
  for (Index k = 0; k < others.cols(); ++k) {
    VectorXd gradient;
    EXPECT_NEAR(acquisition.value_and_gradient(others.col(k), gradient), vector("log_improvements")[k],
                kClose);
    expect_close(gradient.head(3), gradients.col(k).head(3));  // the last is a choice
  }
}

TEST_F(GaussianProcesses, KnowWhatRunningTrialsMayResultIn) {
  const MatrixXd known = points("known"), running = points("running");
  MatrixXd all(4, known.cols() + running.cols());
  all << known, running;
  MatrixXd values(all.cols(), 4);
  values << vector("values").replicate(1, 4), points("fantasies");
  VectorXd noises(all.cols());
  noises << VectorXd::Constant(known.cols(), kernel().parameters().noise),
      VectorXd::Constant(running.cols(), kLeastNoise);
  ASSERT_EQ(kLeastNoise, values_["least_noise"].get<double>());
  const GaussianProcess process(kernel(), all, values, noises);
  const MatrixXd covariances = kernel().covariances(all, points("others"));
  expect_close(process.means(covariances), columns_of(values_["means_with_fantasies"]));
  // Optuna adds the least noise to the variance.
  expect_close(process.variances(covariances).array() + kLeastNoise, vector("variances_with_fantasies"));
}

TEST_F(GaussianProcesses, AreFittedToTheHighestLikelihood) {
  const Kernel fitted = fit_kernel(points("known"), vector("values"), {false, false, false, true});
  VectorXd gradient;
  const double highest = log_posterior_of(fitted, points("known"), vector("values"), &gradient);
  EXPECT_GT(highest, values_["log_posterior"].get<double>());
  EXPECT_LT(gradient.cwiseAbs().maxCoeff(), 0.05);
}

TEST_F(GaussianProcesses, GiveSlopesWithRunningTrials) {
  Random random(3);
  const Acquisition acquisition =
      make_acquisition(kernel(), points("known"), vector("values"), points("running"), 64, random);
  const MatrixXd others = points("others");
  for (Index k = 0; k < others.cols(); ++k) {
    VectorXd gradient, none;
    acquisition.value_and_gradient(others.col(k), gradient);
    for (Index i = 0; i < 3; ++i) {
      VectorXd left = others.col(k), right = left;
      left[i] -= 1e-6;
      right[i] += 1e-6;
      const double slope =
          (acquisition.value_and_gradient(right, none) - acquisition.value_and_gradient(left, none)) / 2e-6;
      EXPECT_NEAR(gradient[i], slope, 1e-4 * (1 + std::abs(slope)));
    }
  }
}

TEST_F(GaussianProcesses, SeeLossesThroughSciPysPowerTransform) {
  const VectorXd skewed = vector("skewed");
  const double power = most_likely_power(skewed);
  EXPECT_NEAR(power, values_["power"].get<double>(), 1e-4);
  for (const Json& one : values_["transforms"])
    expect_close(transformed_by_power(skewed, one["power"].get<double>()), vector_of(one["values"]));
}

TEST(PowerTransform, KeepsTheOrderOfEachValues) {
  for (const double outlier : {1.0, 1e3, -1e12, 1e15}) {
    VectorXd values(5);
    values << 0, 0.1, 0.2, 0.3, outlier;
    const VectorXd scaled = standardized(values);
    const VectorXd found = standardized(transformed_by_power(scaled, most_likely_power(scaled)));
    ASSERT_TRUE(found.allFinite());
    for (Index a = 0; a < 5; ++a) {
      for (Index b = 0; b < 5; ++b) EXPECT_EQ(scaled[a] < scaled[b], found[a] < found[b]) << outlier;
    }
  }
  EXPECT_EQ(most_likely_power(VectorXd::Zero(3)), 1);
}

// A tree: the rate of one choice matters, that of the other does not.
double loss_of_tree(const Point& point) {
  const double x = point[0] - 0.3;
  if (point[2] == 0) return 1 + x * x;
  return x * x + std::pow(std::log10(point[3]) + 2, 2) + 0.01 * std::pow(point[1] - 40, 2);
}

Space tree() {
  Space space;
  space.add("x", "0.0..1.0");
  space.add("whole", "1..64");
  space.add("kind", "a,b");
  space.add("rate", "1e-4..1.0:log:when=kind=b");
  return space;
}

struct SearchCase {
  uint64_t seed = 5;
  int64_t count = 20, lag = 4;
};

std::vector<Observation> search(const Space& space, const std::function<double(const Point&)>& loss,
                                const SearchCase& asked) {
  const auto sampler = make_gp_sampler(space, asked.seed);
  std::vector<Observation> observations;
  for (int64_t trial = 0; trial < asked.count; ++trial) {
    std::vector<Observation> shown = observations;
    for (Observation& one : shown) {
      if (one.trial + asked.lag < trial) continue;
      one.state = Observation::State::pending;
      one.loss = kAbsent;
    }
    const Point point = sampler->suggest(trial, shown);
    observations.push_back({trial, point, Observation::State::ended, loss(point), 1});
  }
  return observations;
}

double best_of(const std::vector<Observation>& observations) {
  double best = HUGE_VAL;
  for (const Observation& one : observations) best = std::min(best, one.loss);
  return best;
}

TEST(GaussianProcessSearch, FindsTheBottomOfATree) {
  for (const int64_t lag : {0, 4})
    EXPECT_LT(best_of(search(tree(), loss_of_tree, {.count = 40, .lag = lag})), 0.02) << "lag " << lag;
}

// The bottom is that of bbob's first function, first instance.
TEST(GaussianProcessSearch, FindsTheBottomOfASphere) {
  const Point bottom{0.2528, -1.1568, -0.724, 1.9264, -2.6808, 0.4392, -0.1168, 0.12, -1.6376, -3.0512};
  Space space;
  for (size_t i = 0; i < bottom.size(); ++i) space.add("x" + std::to_string(i), "-5.0..5.0");
  const auto distance = [&](const Point& point) {
    double sum = 0;
    for (size_t i = 0; i < bottom.size(); ++i) sum += std::pow(point[i] - bottom[i], 2);
    return sum;
  };
  EXPECT_LT(best_of(search(space, distance, {.seed = 0, .count = 75, .lag = 1})), 0.5);
}

TEST(GaussianProcessSearch, RepeatsBitForBit) {
  const auto first = search(tree(), loss_of_tree, {}), second = search(tree(), loss_of_tree, {});
  for (size_t k = 0; k < first.size(); ++k)
    EXPECT_EQ(tree().assignment(first[k].point), tree().assignment(second[k].point));
}

TEST(GaussianProcessSearch, TriesNoPointTwiceWhileThereAreOthers) {
  Space space;
  space.add("a", "1..3");
  space.add("b", "x,y,z,u");
  const auto sampler = make_gp_sampler(space, 1);
  std::vector<Observation> observations;
  std::set<Point> points;
  for (int64_t trial = 0; trial < 14; ++trial) {
    const Point point = sampler->suggest(trial, observations);
    EXPECT_TRUE(trial < 10 || points.size() == 12 || !points.contains(point)) << trial;
    points.insert(point);
    observations.push_back({trial, point, Observation::State::ended, point[0], 1});
  }
}

TEST(GaussianProcessSearch, GoesOnWithResultsThatTeachNothing) {
  Space space;
  space.add("a", "1..3");
  space.add("b", "x,y");
  const auto equal = [](const Point&) { return 1.0; };
  const auto huge = [](const Point& point) { return point[0] == 1 ? 1.7e308 : -1.7e308; };
  const auto infinite = [](const Point& point) { return point[0] == 1 ? HUGE_VAL : 1e-300; };
  for (const std::function<double(const Point&)>& loss :
       std::vector<std::function<double(const Point&)>>{equal, huge, infinite}) {
    const auto sampler = make_gp_sampler(space, 1);
    std::vector<Observation> observations;  // more than there are points, and equal ones that are pending
    for (int64_t trial = 0; trial < 30; ++trial) {
      const Point point = sampler->suggest(trial, observations);
      ASSERT_EQ(space.assignment(point).size(), 2u);
      observations.push_back({trial, point, Observation::State::pending, kAbsent, 0});
      if (trial < 8) continue;
      Observation& told = observations[static_cast<size_t>(trial) - 8];
      told = {told.trial, told.point, Observation::State::ended, loss(told.point), 1};
    }
  }
}

}  // namespace
}  // namespace lockstep::sweep
