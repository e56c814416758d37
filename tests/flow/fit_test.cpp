// train::fit from C++: a user's own network, observers, stops at awkward moments.
#include <cmath>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fit.h"
#include "lockstep/record/event_log.h"
#include "lockstep/record/state.h"
#include "lockstep/record/status_file.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

TEST_F(FitTest, OwnNetworkHasTheSameBitsForAnyNumberOfWorkers) {
  const train::Result one = fit(own_job(), options_of("1", 1));
  EXPECT_EQ(one.reason, train::EndReason::finished);
  EXPECT_EQ(one.steps, 3 * kStepsPerEpoch);
  EXPECT_GT(one.best_accuracy, 0.5);
  for (const int64_t workers : {2, 3, 8}) {
    const std::string run = std::to_string(workers);
    const train::Result other = fit(own_job(), options_of(run, workers));
    EXPECT_EQ(other.accuracy, one.accuracy);
    EXPECT_EQ(other.loss, one.loss);
    expect_same("1", run);
  }
}

TEST_F(FitTest, HalfPrecisionSkipsTheStepsOfAllWorkersWhoseGradientsOverflow) {
  train::TrainingRequest request = own_job();
  request.network =
      nn::network("loud", [](const nn::NetworkInput& input) { return std::make_shared<LoudNetImpl>(input); });
  const auto options_with = [&](const std::string& run, int64_t workers, double clip) {
    train::Options options = options_of(run, workers);
    options.precision = train::Precision::fp16_mixed;
    options.learning_rate = 1e-4;
    options.optimizer = train::OptimizerKind::adam;
    options.gradient_clip = clip;
    options.hash_every = 1;
    return options;
  };
  for (const double clip : {0.0, 1.0}) {
    const std::string name = clip > 0 ? "clipped " : "loud ";
    for (const int64_t workers : {1, 2, 3}) {
      std::map<int64_t, std::string> hashes;  // after each step
      std::set<int64_t> skipped;              // steps
      int64_t count = 0;
      request.observer = [&](const record::Event& event) {
        if (event.kind == "hash") hashes[event.step] = record::text(event, "weights");
        if (event.kind == "message" && event.values.contains("skipped_steps")) {
          skipped.insert(event.step);
          count = event.values["skipped_steps"];
        }
        return record::Control::go;
      };
      const train::Result result = fit(request, options_with(name + std::to_string(workers), workers, clip));
      EXPECT_EQ(result.steps, 3 * kStepsPerEpoch);
      EXPECT_THAT(skipped, testing::SizeIs(testing::AllOf(count, testing::Ge(3), testing::Le(8))));
      ASSERT_EQ(hashes.size(), 27U);
      for (int64_t step = 2; step <= 27; ++step)
        EXPECT_EQ(hashes[step] == hashes[step - 1], skipped.contains(step)) << "step " << step;
      expect_same(name + "1", name + std::to_string(workers));
    }
    int64_t last_step = 2;
    request.observer = [&](const record::Event& event) {
      return event.kind == "step" && event.step == last_step ? record::Control::stop : record::Control::go;
    };
    fit(request, options_with(name + "parts", 1, clip));
    train::Options options = options_with(name + "parts", 3, clip);
    options.resume = true;
    for (const int64_t step : {5, 13, 28}) {
      last_step = step;
      fit(request, options);
    }
    expect_same(name + "1", name + "parts");
  }
}

TEST_F(FitTest, HalfPrecisionHasTheSameBitsForAnyNumberOfWorkers) {
  for (const int64_t workers : {1, 2, 3}) {
    train::Options options = options_of("half-" + std::to_string(workers), workers);
    options.precision = train::Precision::fp16_mixed;
    EXPECT_GT(fit(own_job(), options).best_accuracy, 0.5);
    expect_same("half-1", "half-" + std::to_string(workers));
  }
  fit(own_job(), options_of("single", 1));
  EXPECT_NE(bytes("half-1"), bytes("single"));
}

TEST_F(FitTest, ChangingBufferIsRefusedByName) {
  train::TrainingRequest request = own_job();
  request.network = nn::network(
      "counting", [](const nn::NetworkInput& input) { return std::make_shared<CountingNetImpl>(input); });
  try {
    fit(request, options_of("counting", 2));
    FAIL() << "a buffer of its own went unnoticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_option);
    EXPECT_THAT(error.what(), HasSubstr("\"calls\""));
  }
}

TEST_F(FitTest, ObserverStopsAndResumeWithOtherWorkersGivesTheSameBits) {
  fit(own_job(), options_of("whole", 2));
  train::TrainingRequest request = own_job();
  int64_t last_step = 4;
  request.observer = [&](const record::Event& event) {
    return event.kind == "step" && event.step == last_step ? record::Control::stop : record::Control::go;
  };
  EXPECT_EQ(fit(request, options_of("parts", 1)).reason, train::EndReason::observer);
  train::Options options = options_of("parts", 3);
  options.resume = true;
  for (const int64_t step : {5, 9, 13, 26}) {
    last_step = step;
    const train::Result result = fit(request, options);
    EXPECT_EQ(result.reason, train::EndReason::observer);
    EXPECT_EQ(result.steps, step);
    EXPECT_TRUE(std::filesystem::exists(result.weights));
    options.workers = step % 8 + 1;
  }
  EXPECT_EQ(fit(own_job(), options).reason, train::EndReason::finished);
  expect_same("whole", "parts");
  EXPECT_EQ(fit(own_job(), options).reason, train::EndReason::already_finished);
  expect_same("whole", "parts");
}

// The validation data stop the run while they are read: the step stands, the validation is made again at
// resume, and the best weights are those of that step.
TEST_F(FitTest, StopInsideAValidation) {
  for (const int64_t validate_every : {4, 27}) {
    const std::string whole = "whole" + std::to_string(validate_every),
                      parts = "parts" + std::to_string(validate_every);
    train::Options options = options_of(whole, 2);
    options.validate_every = validate_every;
    const train::Result expected = fit(own_job(), options);

    std::stop_source source;
    train::TrainingRequest request = own_job();
    request.validation = corners(20, 100, [&](int64_t index) {
      if (index == 9) source.request_stop();
    });
    request.stop = source.get_token();
    options.output = (folder_ / parts).string();
    const train::Result stopped = fit(request, options);
    EXPECT_EQ(stopped.reason, train::EndReason::stopped);
    EXPECT_EQ(stopped.steps, validate_every);
    EXPECT_FALSE(std::filesystem::exists(stopped.weights));

    options.resume = true;
    options.workers = 3;
    const train::Result resumed = fit(own_job(), options);
    EXPECT_EQ(resumed.reason, train::EndReason::finished);
    EXPECT_EQ(resumed.accuracy, expected.accuracy);
    EXPECT_EQ(resumed.best_accuracy, expected.best_accuracy);
    expect_same(whole, parts);
  }
}

// Calls `look` when the number of its samples is asked for, as preparations do.
class Watched : public Corners {
 public:
  Watched(uint32_t seed, std::function<void()> look) : Corners(61, seed), look_(std::move(look)) {}
  int64_t size() const override {
    look_();
    return Corners::size();
  }

 private:
  std::function<void()> look_;
};

TEST_F(FitTest, ARunThatPreparesItsResumeIsRunningAndIsWhatItWasIfThatFails) {
  train::TrainingRequest request = own_job();
  request.observer = [](const record::Event& event) {
    return event.kind == "step" && event.step == 9 ? record::Control::stop : record::Control::go;
  };
  train::Options options = options_of("run", 1);
  fit(request, options);
  const std::filesystem::path run = folder_ / "run";
  const record::StateOfRun before = record::state_of(run);
  EXPECT_EQ(before.state, record::RunState::ended);
  std::mutex mutex;
  std::set<record::RunState> seen;
  const auto look = [&] {
    const std::lock_guard lock(mutex);
    if (record::next_attempt(run) == 1) seen.insert(record::state_of(run).state);  // while it prepares
  };
  options.resume = true;
  request.observer = {};
  request.dataset = data::Dataset(std::make_shared<Watched>(2, look));  // other files
  EXPECT_THROW(fit(request, options), Error);
  EXPECT_TRUE(seen.contains(record::RunState::running));
  EXPECT_EQ(record::state_of(run).state, record::RunState::ended);
  EXPECT_EQ(record::state_of(run).reason, before.reason);
  EXPECT_EQ(record::state_of(run).step, 9);

  seen.clear();
  request.dataset = data::Dataset(std::make_shared<Watched>(1, look));
  EXPECT_EQ(fit(request, options).reason, train::EndReason::finished);
  EXPECT_TRUE(seen.contains(record::RunState::running));
  const auto status = record::read_status(run);
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(status->state, record::RunState::ended);
  EXPECT_EQ(status->attempt, 1);
  EXPECT_TRUE(status->best_accuracy.has_value());
}

TEST_F(FitTest, TestDataAreScoredAtTheEndAlsoWhenPatienceEndsTheRun) {
  train::TrainingRequest request = own_job();
  request.test = corners(30, 500);
  const train::Result whole = fit(request, options_of("whole", 2));
  EXPECT_GT(whole.test_accuracy, 0.3);
  train::Options options = options_of("impatient", 2);
  options.patience = 1;
  options.max_epochs = 50;
  const train::Result impatient = fit(request, options);
  EXPECT_EQ(impatient.reason, train::EndReason::patience);
  EXPECT_LT(impatient.steps, 50 * kStepsPerEpoch);
  EXPECT_GT(impatient.test_accuracy, 0.3);
}

TEST_F(FitTest, SmallFolderIsTrainedForAsManyStepsAsItNeeds) {
  train::TrainingRequest request = own_job();
  request.dataset = corners(90);
  request.validation = {};
  const train::Result result = fit(request, {.workers = 2, .output = (folder_ / "small").string()});
  EXPECT_GE(result.steps, 60);  // one an epoch
  EXPECT_GT(result.best_accuracy, 0.9);
}

TEST_F(FitTest, FolderTooSmallToHoldImagesOutIsTrainedToTheEnd) {
  train::TrainingRequest request = own_job();
  const data::Dataset many = corners(90);
  std::vector<int64_t> one_of_each;
  for (int64_t label = 0; label < static_cast<int64_t>(many.classes().size()); ++label) {
    for (int64_t i = 0; static_cast<int64_t>(one_of_each.size()) == label; ++i) {
      if (many.store().label(i) == label) one_of_each.push_back(i);
    }
  }
  request.dataset = many.subset(one_of_each);
  request.validation = {};
  const train::Result result =
      fit(request, {.workers = 2, .max_epochs = 9, .output = (folder_ / "tiny").string()});
  EXPECT_EQ(result.reason, train::EndReason::finished);
  EXPECT_EQ(result.steps, 9);
  EXPECT_TRUE(std::isnan(result.accuracy));
}

TEST_F(FitTest, ThrowingObserverEndsTheRunWithItsErrorAndResumeGoesOn) {
  fit(own_job(), options_of("whole", 1));
  train::TrainingRequest request = own_job();
  request.observer = [](const record::Event& event) -> record::Control {
    if (event.kind == "step" && event.step == 12) throw std::runtime_error("the observer's own");
    return record::Control::go;
  };
  EXPECT_THROW(fit(request, options_of("broken", 3)), std::runtime_error);
  train::Options options = options_of("broken", 2);
  options.resume = true;
  EXPECT_EQ(fit(own_job(), options).reason, train::EndReason::finished);
  expect_same("whole", "broken");
}

}  // namespace
}  // namespace lockstep
