#include "lockstep/train/forecast/forecast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// 10 ms a shard, 8 shards of 16 samples; all else is cheap until a test says otherwise.
struct Case {
  Plan plan;
  StepCosts costs;
  ForecastOptions asked;

  Case() {
    plan.data.train_count = 12'800;
    plan.step.mini_batch_size = 128;
    plan.length.steps_per_epoch = 100;
    plan.length.validate_every = 100;
    plan.length.max_epochs = 10;
    plan.length.total_steps = 1'000;
    plan.network.learned_count = 1'000'000;
    costs.cores = 16;
    costs.shard_samples = 16;
    costs.shard.assign(16, 0.010);
    costs.exchange.assign(16, 0.0001);
    costs.evaluate_sample.assign(16, 0);
    costs.first_read = 1e-5;
    costs.copy = 1e-7;
    costs.gradient_bytes = 4'000'000;
    asked.forecast = {1, 2, 3, 4, 8};
  }
  Forecast make() const { return make_forecast(plan, costs, asked); }
};

TEST(Forecast, WorkersOwnWholeShards) {
  const Forecast forecast = Case().make();
  ASSERT_EQ(forecast.rows.size(), 5U);
  const std::vector<double> shards_in_turn{8, 4, 3, 2, 1};
  for (size_t i = 0; i < forecast.rows.size(); ++i)
    EXPECT_NEAR(forecast.rows[i].compute, 0.010 * shards_in_turn[i], 1e-12) << forecast.rows[i].workers;
  EXPECT_NEAR(forecast.rows[2].speed_up, 8.0 / 3, 0.01);
  EXPECT_NEAR(forecast.rows[2].efficiency, 8.0 / 9, 0.01);
  EXPECT_THAT(forecast.rows[2].advice, HasSubstr("--shards 9"));
  EXPECT_EQ(forecast.rows[0].bottleneck, "compute");
  EXPECT_THAT(forecast.warnings, IsEmpty());
  for (const ForecastRow& row : forecast.rows) {
    EXPECT_FALSE(row.assumed);
    EXPECT_NEAR(row.run, row.first_epoch + 9 * row.later_epoch, 1e-9);
  }
}

TEST(Forecast, MoreWorkersThanShardsGainNothing) {
  Case c;
  c.asked.forecast = {16, 8};
  const Forecast forecast = c.make();
  EXPECT_EQ(forecast.rows.front().workers, 8);
  EXPECT_NEAR(forecast.rows[1].images_per_second, forecast.rows[0].images_per_second, 1);
  EXPECT_THAT(forecast.rows[1].advice, HasSubstr("--shards 16"));
  EXPECT_THAT(forecast.warnings, Contains(HasSubstr("workers 16: more than the 8 shards")));
}

TEST(Forecast, CoresThatAreNotHereAreAssumed) {
  Case c;
  c.costs.cores = 2;
  c.costs.shard.resize(2);
  c.costs.exchange.resize(2);
  const Forecast forecast = c.make();
  EXPECT_FALSE(forecast.rows[1].assumed);
  EXPECT_TRUE(forecast.rows[3].assumed);
  EXPECT_THAT(forecast.warnings, Contains(HasSubstr("workers 3, 4, 8: this machine has 2 cores")));
  EXPECT_GT(forecast.rows[4].exchange, forecast.rows[1].exchange) << "memory is not faster for more cores";
}

TEST(Forecast, DecodingThatIsSlowerThanComputingIsNamed) {
  Case c;
  c.costs.first_read = c.costs.later_read = 0.020;
  c.costs.later_from = ReadFrom::decode;
  const Forecast forecast = c.make();
  for (const ForecastRow& row : forecast.rows) {
    EXPECT_EQ(row.bottleneck, "decode") << row.workers;
    EXPECT_THAT(row.advice, HasSubstr("lockstep cache"));
    EXPECT_THAT(row.advice, HasSubstr("--decode fast"));
    EXPECT_GE(row.step, row.read);
  }
}

TEST(Forecast, ImagesThatAreKeptAreDecodedInTheFirstEpochOnly) {
  Case c;
  c.costs.first_read = 0.020;
  const ForecastRow row = c.make().rows.front();
  EXPECT_EQ(row.bottleneck, "compute");
  EXPECT_GT(row.first_epoch, 2 * row.later_epoch);
}

TEST(Forecast, WithoutASpareCoreReadingTakesTimeFromComputing) {
  Case c;
  c.costs.cores = 1;
  c.costs.shard.resize(1);
  c.costs.exchange.resize(1);
  c.costs.first_read = 0.0005;
  c.asked.forecast = {1};
  const ForecastRow one_core = c.make().rows.front();
  c.costs.cores = 2;
  const ForecastRow two_cores = c.make().rows.front();
  EXPECT_NEAR(one_core.first_epoch - two_cores.first_epoch, 12'800 * 0.0005, 0.1);
}

TEST(Forecast, ValidationTakesWhatASampleTakesOnSoManyWorkers) {
  Case c;
  c.costs.copy = 0;
  c.plan.data.validation_count = 8'000;
  c.plan.length.validate_every = 50;
  c.asked.forecast = {1, 4, 16};
  const auto training = c.make().rows;
  c.costs.evaluate_sample = {0.0010, 0.0011, 0.0012, 0.0013, 0.0014, 0.0015, 0.0016, 0.0017};
  c.costs.evaluate_sample.resize(16, 0.1);
  const auto with_validation = c.make().rows;
  const std::vector<double> seconds{8.0, 2 * 1.3, 1.7};  // one after the other, and 8 workers have shards
  for (size_t i = 0; i < seconds.size(); ++i)
    EXPECT_NEAR(with_validation[i].later_epoch - training[i].later_epoch, 2 * seconds[i], 1e-9)
        << with_validation[i].workers << " workers";
}

TEST(Forecast, ANetworkThatIsSlowerThanComputingIsNamed) {
  Case c;
  c.asked.forecast = {4, 8};
  c.asked.workers_per_machine = 4;
  c.asked.network_bandwidth = 0.1;
  const Forecast forecast = c.make();
  EXPECT_EQ(forecast.rows[0].machines, 1);
  EXPECT_EQ(forecast.rows[1].machines, 2);
  EXPECT_EQ(forecast.rows[1].bottleneck, "exchange");
  EXPECT_THAT(forecast.rows[1].advice, HasSubstr("--exchange bf16"));
  EXPECT_THAT(forecast.warnings,
              Contains(HasSubstr("workers 8: the exchange takes longer than the computation")));
  EXPECT_THAT(forecast.warnings, Contains(HasSubstr("workers 8: several machines")));
  // Two ranks with one node each: a slice of it there, and a finished slice; 3 messages in turn.
  c.plan.exchange.overlap = false;
  EXPECT_NEAR(c.make().rows[1].exchange, 4e6 / (0.1e9 / 8) + 3 * 50e-6 + 0.0001, 1e-9);
  c.asked.network_bandwidth = 1000;
  EXPECT_EQ(c.make().rows[1].bottleneck, "compute");
}

TEST(Forecast, FasterWorkersTakeMoreShards) {
  Case c;
  c.asked.forecast = {2};
  c.asked.worker_speeds = {100, 33};
  const Forecast forecast = c.make();
  EXPECT_NEAR(forecast.rows[0].compute, 0.010 / 0.33 * 2, 1e-9)
      << "six shards of the fast one, two of the slow one";
  EXPECT_THAT(forecast.warnings, Contains(HasSubstr("unequal speed (--worker-speeds)")));
  EXPECT_TRUE(forecast.rows[0].assumed);
  EXPECT_THAT(forecast.warnings, Not(Contains(HasSubstr("are assumed")))) << "the cores are here";
  c.asked.workers_per_machine = 1;
  EXPECT_NEAR(c.make().rows[0].compute, 0.010 / 0.33 * 4, 1e-9) << "between machines nobody takes over";
}

TEST(Forecast, OnEachMachineShardsAreTakenOverWhileGradientsTravel) {
  Case c;
  c.asked.forecast = {4};
  c.asked.workers_per_machine = 2;
  c.asked.worker_speeds = {100, 33, 100, 33};
  EXPECT_TRUE(c.plan.exchange.overlap);
  EXPECT_NEAR(c.make().rows[0].compute, 0.010 / 0.33, 1e-9) << "of four shards the slow one computes one";
  EXPECT_THAT(c.make().warnings, Contains(HasSubstr("more --shards balance them better")));
}

TEST(Forecast, SpeedsThatWereMeasuredAreNoAssumption) {
  Case c;
  c.asked.worker_speeds = {100, 100, 80};
  const Forecast forecast = c.make();
  EXPECT_FALSE(forecast.rows[1].assumed);
  EXPECT_TRUE(forecast.rows[2].assumed);
}

TEST(Forecast, OneGpuIsMeasuredAndMoreAreAssumed) {
  Case c;
  c.plan.machine.device = "cuda";
  c.plan.machine.devices = {0, 1};
  c.costs.shard.resize(1);
  c.costs.exchange.resize(1);
  c.asked.forecast = {1, 2, 4};
  const Forecast forecast = c.make();
  EXPECT_FALSE(forecast.rows[0].assumed);
  EXPECT_TRUE(forecast.rows[1].assumed);
  EXPECT_THAT(forecast.warnings, Contains(HasSubstr("workers 2, 4: one GPU was measured")));
}

TEST(Forecast, GpusTakeOverNoShards) {
  Case c;
  c.plan.machine.device = "cuda";
  c.plan.machine.devices = {0, 1};
  c.asked.forecast = {2};
  c.asked.worker_speeds = {100, 33};
  const Forecast forecast = c.make();
  EXPECT_NEAR(forecast.rows[0].compute, 0.010 / 0.33 * 4, 1e-9);
  EXPECT_THAT(forecast.warnings, Contains(HasSubstr("not between GPUs, where the slowest worker decides")));
}

TEST(Forecast, MoreThanEightGpusAreWorthAWord) {
  Case c;
  c.plan.machine.device = "cuda";
  c.plan.machine.devices = {0};
  c.plan.step.shards = 16;
  c.asked.forecast = {1, 8};
  EXPECT_THAT(c.make().warnings, Not(Contains(HasSubstr("more than 8 GPUs"))));
  c.asked.forecast = {16};
  EXPECT_THAT(c.make().warnings, Contains(HasSubstr("more than 8 GPUs")));
}

TEST(Forecast, AMiniBatchThatGrowsWithTheWorkersKeepsThemBusy) {
  Case c;
  c.plan.step.scales_with_workers = true;
  c.plan.machine.workers = 1;
  const Forecast forecast = c.make();
  EXPECT_EQ(forecast.rows[4].mini_batch_size, 1024);
  EXPECT_FALSE(forecast.rows[0].assumed);
  EXPECT_TRUE(forecast.rows[4].assumed) << "shards of that size were not measured";
  EXPECT_NEAR(forecast.rows[4].step, forecast.rows[0].step, 0.001);
}

TEST(Forecast, AveragingModeIsRefused) {
  Case c;
  c.plan.exchange.kind = ExchangeKind::average;
  EXPECT_THROW(c.make(), Error);
}

}  // namespace
}  // namespace lockstep::train
