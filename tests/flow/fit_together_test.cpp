// train::fit by several workers and ranks, which wait for each other and end together.
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "fit.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// As in a task of a pool, with its worker's communicator.
TEST_F(FitTest, TheRanksOfAGroupTrainOneNetwork) {
  const train::Result alone = fit(own_job(), options_of("alone", 2));
  for (const int64_t ranks : {2, 3}) {
    const std::string run = "ranks-" + std::to_string(ranks);
    const auto memory = comm::GroupMemory::make(ranks);
    std::vector<train::Result> results(static_cast<size_t>(ranks));
    {
      std::vector<std::jthread> threads;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        threads.emplace_back([&, rank] {
          const auto comm = comm::make_communicator(memory, rank);
          train::TrainingRequest request = own_job();
          request.comm = comm.get();
          results[static_cast<size_t>(rank)] = fit(request, options_of(run, ranks - 1));
        });
      }
    }
    expect_same("alone", run);
    for (const train::Result& result : results) {
      EXPECT_EQ(result.accuracy, alone.accuracy);
      EXPECT_EQ(result.loss, alone.loss);
      EXPECT_EQ(result.steps, alone.steps);
      EXPECT_EQ(result.weights, folder_ / run / "model.safetensors");
    }
  }
}

TEST_F(FitTest, RunsAtTheSameTimeDoNotDisturbEachOther) {
  fit(own_job(), options_of("alone", 1));
  {
    const std::jthread first([&] { fit(own_job(), options_of("first", 2)); });
    const std::jthread second([&] { fit(own_job(), options_of("second", 3)); });
  }
  expect_same("alone", "first");
  expect_same("alone", "second");
}

// The first sample that each of two ranks reads comes later than ranks otherwise wait for each other: rank 0
// measures the mean then, and rank 1 looks for bad samples.
TEST_F(FitTest, RanksWaitForPreparationsAsLongAsTheseTake) {
  train::Options options = options_of("alone", 1);
  options.normalize = "mean-std";
  options.on_bad_sample = data::OnBadSample::skip;
  fit(own_job(), options);
  options.output = (folder_ / "late").string();
  const auto memory = comm::GroupMemory::make(2);
  {
    std::vector<std::jthread> threads;
    for (int64_t rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        const auto comm = comm::make_communicator(memory, rank, {.timeout = 1s});
        train::TrainingRequest request = own_job();
        const auto is_first = std::make_shared<std::atomic<bool>>(true);
        request.dataset = corners(61, 1, [is_first](int64_t) {
          if (is_first->exchange(false)) std::this_thread::sleep_for(2s);
        });
        request.comm = comm.get();
        EXPECT_EQ(fit(request, options).reason, train::EndReason::finished);
      });
    }
  }
  expect_same("alone", "late");
}

// A warning about the first loss is said while other workers may still be on their way out of the barrier of
// its step. None of them may take the observer's wish for the end of that step.
TEST_F(FitTest, AnObserverThatStopsWithinAStepStopsAllWorkersAfterIt) {
  train::TrainingRequest request = own_job();
  request.network = nn::network(
      "too loud", [](const nn::NetworkInput& input) { return std::make_shared<LoudNetImpl>(input, 10'000); });
  request.observer = [](const record::Event& event) {
    const bool warns = event.kind == "message" && record::text(event, "level") == "warning";
    return warns ? record::Control::stop : record::Control::go;
  };
  const train::Result alone = fit(request, options_of("one", 1));
  EXPECT_EQ(alone.reason, train::EndReason::observer);
  EXPECT_EQ(alone.steps, 1);
  constexpr int kRuns = 30;
  for (int i = 0; i < kRuns; ++i) {
    const std::string run = "all " + std::to_string(i);
    const train::Result result = fit(request, options_of(run, 8));
    EXPECT_EQ(result.reason, train::EndReason::observer);
    EXPECT_EQ(result.steps, 1);
    EXPECT_EQ(bytes("one"), bytes(run));
  }
}

}  // namespace
}  // namespace lockstep
