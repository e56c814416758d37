#include "lockstep/train/update/averaging.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "lockstep/train/update/test_ranks.h"
#include "lockstep/train/update/test_rules.h"

namespace lockstep::train {
namespace {

constexpr int64_t kReplicas = 3;
constexpr double kAveragingRate = 0.1;
constexpr double kAveragingMomentum = 0.9;
// Samples of each replica in each round. The last replica has none in the last round.
const std::vector<std::vector<int64_t>> kRounds{{3, 3, 2}, {3, 3, 2}, {3, 3, 2},
                                                {3, 3, 2}, {3, 3, 2}, {2, 1}};
const auto kLastRound = static_cast<int64_t>(kRounds.size());

// The minimum of the loss differs for each replica and each round.
double gradient_at(double weight, int64_t replica, int64_t round, size_t element) {
  return weight - std::sin(static_cast<double>(replica * 7 + round * 3) + static_cast<double>(element) * 0.5);
}

nn::Instance averaged_network() { return test::linear_layers({3, 2}); }

std::vector<double> values_of(const std::vector<at::Tensor>& parameters) {
  std::vector<double> values;
  for (const at::Tensor& parameter : parameters) {
    const at::Tensor flat = parameter.detach().to(at::kDouble).flatten();
    values.insert(values.end(), flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel());
  }
  return values;
}

using Averages = std::vector<std::vector<double>>;

// The replicas of one rank, with gradients that depend on the replica's weights.
class AveragedTraining {
 public:
  AveragedTraining(comm::Communicator& comm, int64_t threads, const AveragingOptions& options)
      : here_(part_of(kReplicas, comm.size(), comm.rank())),
        group_(threads),
        masters_(averaged_network(), at::kDouble, at::kCPU),
        optimizer_(rule(), masters_),
        averaging_({group_, comm, kReplicas,
                    [size = comm.size()](int64_t rank) { return part_of(kReplicas, size, rank); }},
                   {masters_, optimizer_, {}}, options, &averaged_network) {}

  Averaging& averaging() { return averaging_; }

  // The masters at each average of these rounds.
  Averages run(int64_t first, int64_t last) {
    Averages averages;
    averaging_.begin(first - 1);
    group_.run([&](Share thread) {
      at::set_num_threads(1);
      for (int64_t round = first; round <= last; ++round) {
        train_round(thread, round);
        if (!averaging_.is_average(round)) continue;
        averaging_.average(thread, round);
        group_.barrier([&] { averages.push_back(values_of(masters_.views(masters_.flat()))); });
      }
    });
    return averages;
  }

 private:
  static device::UpdateRule rule() {
    Options options;
    options.momentum = kAveragingMomentum;
    options.weight_decay = 0;
    return test::resolved_rule(options);
  }

  void train_round(Share thread, int64_t round) {
    const std::vector<int64_t>& samples = kRounds[static_cast<size_t>(round - 1)];
    const auto count = static_cast<int64_t>(samples.size());
    for (int64_t replica = here_.begin + thread.rank; replica < std::min(here_.end, count);
         replica += thread.size) {
      set_gradients(averaging_.network(replica).parameters, replica, round);
      averaging_.keep_gradients(replica);
    }
    group_.barrier();
    const int64_t stepping = averaging_.share_gradients(thread, round, samples);
    averaging_.update(thread, stepping, optimizer_.rule_at(round - 1, kAveragingRate));
    if (thread.rank == 0) {
      std::vector<ShardResult> results(samples.size());
      for (size_t i = 0; i < results.size(); ++i) results[i].count = samples[i];
      averaging_.note(results, round);
    }
    group_.barrier();
  }

  static void set_gradients(const std::vector<at::Tensor>& parameters, int64_t replica, int64_t round) {
    size_t element = 0;
    for (const at::Tensor& parameter : parameters) {
      const at::Tensor gradient = parameter.detach().clone();
      for (double *value = gradient.mutable_data_ptr<double>(), *end = value + gradient.numel(); value < end;
           ++value)
        *value = gradient_at(*value, replica, round, element++);
      parameter.mutable_grad() = gradient;
    }
  }

  const Range here_;
  comm::ThreadGroup group_;
  SharedWeights masters_;
  Optimizer optimizer_;
  Averaging averaging_;
};

Averages trained_on(int64_t ranks, int64_t threads, const AveragingOptions& options) {
  std::mutex mutex;
  std::vector<Averages> all;
  test::on_ranks(ranks, [&](comm::Communicator& comm) {
    Averages averages = AveragedTraining(comm, threads, options).run(1, kLastRound);
    const std::lock_guard lock(mutex);
    all.push_back(std::move(averages));
  });
  for (const Averages& averages : all) EXPECT_EQ(averages, all.front());
  return all.front();
}

// The same with plain code, one replica after the other.
class PlainTraining {
 public:
  explicit PlainTraining(const AveragingOptions& options) : options_(options) {
    anchor_ = values_of(averaged_network().module->parameters());
    outer_momentum_.resize(anchor_.size());
    replicas_.assign(kReplicas, {anchor_, std::vector<double>(anchor_.size())});
  }

  Averages run(const std::vector<int64_t>& average_rounds) {
    Averages averages;
    for (int64_t round = 1; round <= kLastRound; ++round) {
      step(round);
      if (std::find(average_rounds.begin(), average_rounds.end(), round) == average_rounds.end()) continue;
      average(round);
      averages.push_back(anchor_);
    }
    return averages;
  }

 private:
  struct Replica {
    std::vector<double> weights, momentum;
    int64_t samples = 0;
  };

  void step(int64_t round) {
    const std::vector<int64_t>& samples = kRounds[static_cast<size_t>(round - 1)];
    std::vector<std::vector<double>> gradients(samples.size());
    for (size_t i = 0; i < samples.size(); ++i) {
      for (size_t e = 0; e < anchor_.size(); ++e)
        gradients[i].push_back(gradient_at(replicas_[i].weights[e], static_cast<int64_t>(i), round, e));
      replicas_[i].samples += samples[i];
    }
    if (round <= options_.warmup_rounds)
      gradients.assign(kReplicas, mean_of([&](size_t i) { return gradients[i]; }, samples));
    for (size_t i = 0; i < gradients.size(); ++i) {
      for (size_t e = 0; e < anchor_.size(); ++e) {
        double& momentum = replicas_[i].momentum[e];
        momentum = kAveragingMomentum * momentum + gradients[i][e];
        replicas_[i].weights[e] -= kAveragingRate * momentum;
      }
    }
  }

  template <class Values>
  std::vector<double> mean_of(const Values& values, const std::vector<int64_t>& samples) const {
    std::vector<double> mean(anchor_.size());
    double total = 0;
    for (const int64_t count : samples) total += static_cast<double>(count);
    for (size_t i = 0; i < samples.size(); ++i) {
      for (size_t e = 0; e < mean.size(); ++e)
        mean[e] += values(i)[e] * static_cast<double>(samples[i]) / total;
    }
    return mean;
  }

  void average(int64_t round) {
    std::vector<int64_t> samples;
    for (Replica& replica : replicas_) samples.push_back(std::exchange(replica.samples, 0));
    const auto mean = mean_of([&](size_t i) { return replicas_[i].weights; }, samples);
    const auto momentum = mean_of([&](size_t i) { return replicas_[i].momentum; }, samples);
    for (size_t e = 0; e < mean.size(); ++e) {
      if (options_.outer == OuterOptimizer::none || round <= options_.warmup_rounds) {
        anchor_[e] = mean[e];
        continue;
      }
      // torch.optim.SGD with nesterov.
      const double gradient = anchor_[e] - mean[e];
      outer_momentum_[e] = options_.outer_momentum * outer_momentum_[e] + gradient;
      anchor_[e] -= options_.outer_learning_rate * (gradient + options_.outer_momentum * outer_momentum_[e]);
    }
    for (Replica& replica : replicas_) {
      replica.weights = anchor_;
      if (options_.average_updaters) replica.momentum = momentum;
    }
  }

  const AveragingOptions options_;
  std::vector<Replica> replicas_;
  std::vector<double> anchor_, outer_momentum_;
};

void expect_plain(const AveragingOptions& options, const std::vector<int64_t>& average_rounds) {
  const Averages expected = PlainTraining(options).run(average_rounds), ours = trained_on(1, 1, options);
  ASSERT_EQ(ours.size(), expected.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    for (size_t e = 0; e < ours[i].size(); ++e)
      EXPECT_NEAR(ours[i][e], expected[i][e], 1e-12) << "round " << average_rounds[i];
  }
}

TEST(Averaging, EveryRoundOrAFewIsTheMeanOverTheSamples) {
  expect_plain({.frequency = 1, .last_round = kLastRound}, {1, 2, 3, 4, 5, 6});
  expect_plain({.frequency = 2, .last_round = kLastRound}, {2, 4, 6});
  expect_plain({.frequency = 4, .last_round = kLastRound}, {4, 6});
}

TEST(Averaging, ReplicasKeepTheirOwnOptimizers) {
  expect_plain({.frequency = 2, .last_round = kLastRound, .average_updaters = false}, {2, 4, 6});
}

// The periods after a warm-up begin as in PyTorch's PeriodicModelAverager.
TEST(Averaging, AWarmUpSharesGradients) {
  expect_plain({.frequency = 2, .warmup_rounds = 2, .last_round = kLastRound}, {1, 2, 3, 5, 6});
}

TEST(Averaging, TheOuterOptimizerIsSgdWithNesterov) {
  AveragingOptions options{.frequency = 2, .last_round = kLastRound, .outer = OuterOptimizer::nesterov};
  expect_plain(options, {2, 4, 6});
  options.warmup_rounds = 1;
  expect_plain(options, {1, 2, 4, 6});
}

TEST(Averaging, RanksAndThreadsChangeNoBit) {
  for (const OuterOptimizer outer : {OuterOptimizer::none, OuterOptimizer::nesterov}) {
    const AveragingOptions options{
        .frequency = 2, .warmup_rounds = 1, .last_round = kLastRound, .outer = outer};
    const Averages expected = trained_on(1, 1, options);
    EXPECT_EQ(trained_on(1, 3, options), expected);
    EXPECT_EQ(trained_on(2, 2, options), expected);
    EXPECT_EQ(trained_on(3, 1, options), expected);
  }
}

TEST(Averaging, ATrainingThatEndsBetweenAveragesGoesOnFromItsState) {
  constexpr int64_t kEnd = 3;
  for (const OuterOptimizer outer : {OuterOptimizer::none, OuterOptimizer::nesterov}) {
    const AveragingOptions options{.frequency = 4, .last_round = kLastRound, .outer = outer};
    test::on_ranks(2, [&](comm::Communicator& comm) {
      AveragedTraining first(comm, 1, options), second(comm, 1, options);
      EXPECT_TRUE(first.run(1, kEnd).empty());
      first.averaging().collect(kEnd);
      if (comm.rank() == 0) {
        const nn::NamedTensors from = first.averaging().state(kEnd), to = second.averaging().state(kEnd);
        ASSERT_EQ(from.size(), to.size());
        for (size_t i = 0; i < from.size(); ++i) {
          EXPECT_EQ(from[i].first, to[i].first);
          at::Tensor(to[i].second).copy_(from[i].second);
        }
      }
      second.averaging().hand_out(kEnd);
      EXPECT_EQ(second.run(kEnd + 1, kLastRound), first.run(kEnd + 1, kLastRound));
    });
  }
}

}  // namespace
}  // namespace lockstep::train
