#include "lockstep/base/test_folder.h"
#include "lockstep/train/parallel_wrapper.h"

#include <chrono>
#include <filesystem>
#include <thread>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "lockstep/base/file.h"
#include "lockstep/nn/layers.h"

namespace lockstep::train {
namespace {

class ParallelWrapperTest : public ::testing::Test {
 protected:
  Options options_of(const char* run, int64_t workers) const {
    Options options;
    options.output = (folder_ / run).string();
    options.workers = workers;
    options.execution = Execution::cpu;
    options.max_epochs = 2;
    return options;
  }

  static ParallelWrapper::Builder builder(Options options) { return ParallelWrapper::Builder(nn::find_network("mlp"), std::move(options)).workers(3).averaging_frequency(2); }

  std::string weights(const char* run) const { return read_file(folder_ / run / "model.safetensors", 1 << 24); }

  const test::TemporaryFolder temporary_{};
  const std::filesystem::path& folder_ = temporary_.path();
};

// 50 grey pictures of 4 x 4 in mini-batches of 6.
std::vector<data::MiniBatch> mini_batches() {
  std::vector<data::MiniBatch> all;
  for (int64_t first = 0; first < 50; first += 6) {
    const int64_t count = std::min<int64_t>(6, 50 - first);
    const at::Tensor numbers = at::arange(first, first + count);
    all.push_back({(numbers.view({count, 1, 1, 1}) * 37 + at::arange(16).view({1, 1, 4, 4}) * 11).remainder(251).to(at::kByte), numbers.remainder(4)});
  }
  return all;
}

TEST_F(ParallelWrapperTest, DefaultsAreParallelWrappers) {
  const auto wrapper = ParallelWrapper::Builder(nn::find_network("mlp")).build();
  EXPECT_EQ(wrapper.options().exchange, ExchangeKind::average);
  EXPECT_EQ(wrapper.options().averaging_frequency, 1);
  EXPECT_EQ(wrapper.options().prefetch, 16);
  EXPECT_TRUE(wrapper.options().average_updaters);
  EXPECT_FALSE(wrapper.options().report_score_after_averaging);
  EXPECT_GE(wrapper.options().shards, 2);
  EXPECT_THROW(ParallelWrapper::Builder(nn::find_network("mlp")).workers(0), Error);
}

TEST_F(ParallelWrapperTest, FitsOnIteratorsAndCallables) {
  const auto batches = mini_batches();
  const Result one = builder(options_of("iterators", 1)).build().fit(batches.begin(), batches.end());
  EXPECT_EQ(one.reason, EndReason::finished);
  EXPECT_EQ(one.steps, 2 * 3);  // 9 mini-batches for 3 replicas, twice
  size_t next = 0;
  builder(options_of("callable", 3)).build().fit([&] { return next < batches.size() ? std::optional(batches[next++]) : std::nullopt; });
  Options options = options_of("dataset", 2);
  options.shuffle = data::Shuffle::never;
  options.validation_split = 0;
  options.mini_batch_size = 6;
  next = 0;
  builder(options).build().fit(data::collect([&] { return next < batches.size() ? std::optional(batches[next++]) : std::nullopt; }).dataset);
  EXPECT_EQ(weights("callable"), weights("iterators"));
  EXPECT_EQ(weights("dataset"), weights("iterators"));
}

TEST_F(ParallelWrapperTest, TheFirstStepIsTimedFromTheCall) {
  const auto batches = mini_batches();
  double seconds = -1;
  ParallelWrapper wrapper = builder(options_of("timed", 2)).listener([&](const io::Event& event) {
    if (event.kind == "first_step") seconds = io::number(event, "seconds");
    return io::Control::go;
  }).build();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the process is older than the call, as one that a script became
  const auto start = std::chrono::steady_clock::now();
  wrapper.fit(batches.begin(), batches.end());
  EXPECT_GT(seconds, 0);
  EXPECT_LT(seconds, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

TEST_F(ParallelWrapperTest, StopFitEndsAfterTheStepWithALastAverage) {
  const auto batches = mini_batches();
  ParallelWrapper* running = nullptr;
  std::vector<int64_t> averages;
  Options options = options_of("stopped", 2);
  options.lr_schedule = ScheduleKind::constant;  // it does not depend on the run's length
  ParallelWrapper wrapper = builder(options).listener([&](const io::Event& event) {
    if (event.kind == "average") averages.push_back(event.step);
    if (event.kind == "step" && event.step == 3) running->stop_fit();
    return io::Control::go;
  }).build();
  running = &wrapper;
  const Result result = wrapper.fit(batches.begin(), batches.end());
  EXPECT_EQ(result.reason, EndReason::observer);
  EXPECT_EQ(result.steps, 3);
  EXPECT_EQ(averages, std::vector<int64_t>{2});
  options.output = options_of("three", 3).output;
  options.max_steps = 3;
  builder(options).build().fit(batches.begin(), batches.end());
  EXPECT_EQ(weights("stopped"), weights("three"));
}

}  // namespace
}  // namespace lockstep::train
