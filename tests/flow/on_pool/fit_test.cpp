// fit on pools: all workers train together, and the client sees what one process would show it.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>

#include "lockstep/data/image_share.h"
#include "lockstep/data/sources.h"
#include "lockstep/record/status_file.h"
#include "lockstep/train/tasks/trial_progress.h"

#include "tasks.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

TEST_F(FitOnPool, ParallelTakesAllWorkersOfTheOpenPool) {
  train_alone("alone");
  open(pool::PoolKind::threads, 3);
  Trial three = trial("three");
  three.execution = "parallel";
  const train::Result result = train::fit(*session, nn::find_network("mlp"), corners(64), options_of(three));
  EXPECT_EQ(result.reason, train::EndReason::finished);
  EXPECT_EQ(workers_of(folder_ / "three"), 3);
  EXPECT_EQ(session->current_pool()->size(), 3);
  EXPECT_EQ(weights("three"), weights("alone"));
}

TEST_F(FitOnPool, ProcessesTrainWhatTheClientOpenedAndWhatItWrote) {
  const auto options = [&](const std::string& run) {
    Trial parallel = trial(run);
    parallel.execution = "parallel";
    return options_of(parallel);
  };
  for (int64_t i = 0; i < 24; ++i) {
    const std::filesystem::path path =
        folder_ / "images" / (i % 2 == 0 ? "even" : "odd") / (std::to_string(i) + ".pgm");
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << "P5 8 8 255\n"
                        << std::string(64, static_cast<char>(i % 2 == 0 ? 20 + i : 220 - i));
  }
  const auto [images, held_out] = data::ImageFolder(folder_ / "images").split(0.75);
  train::TrainingRequest request;
  request.dataset = images;
  request.validation = held_out;
  request.network = nn::network<make_plain_net>("plain_net");
  const double alone = train::fit(request, options_of(trial("alone"))).accuracy;
  open(pool::PoolKind::processes, 2);
  EXPECT_EQ(train::fit(*session, request, options("together")).accuracy, alone);
  EXPECT_EQ(weights("together"), weights("alone"));
  // The same folder, named in the request; the network by its options.
  train::TrainingRequest named;
  named.folder = folder_ / "images";
  train::fit(named, options_of(trial("named-alone")));
  train::fit(*session, named, options("named"));
  EXPECT_EQ(weights("named"), weights("named-alone"));
  request.network = nn::network<make_broken_net>("nobody knows it");
  const Error error = error_from([&] { train::fit(*session, request, options("unknown")); });
  EXPECT_THAT(error.message(),
              HasSubstr("cannot make the network \"nobody knows it\", which is a C++ module"));
  EXPECT_THAT(error.hint(), HasSubstr("train::network_task<make>"));
}

TEST_F(FitOnPool, ProcessesAskTheClientsObserverAndTellItsListener) {
  const auto train_with_observer = [&](const std::string& run, const char* execution) {
    train::TrainingRequest request;
    request.dataset = corners(64);
    request.network = nn::find_network("mlp");
    std::vector<std::string> kinds;
    request.listener = [&](const record::Event& event) { kinds.push_back(event.kind); };
    request.observer = [&](const record::Event& event) {
      return event.kind == "step" && event.step == 3 ? record::Control::stop : record::Control::go;
    };
    Trial watched = trial(run);
    watched.execution = execution;
    const train::Result result = execution == std::string("parallel")
                                     ? train::fit(*session, request, options_of(watched))
                                     : train::fit(request, options_of(watched));
    EXPECT_EQ(result.reason, train::EndReason::observer);
    EXPECT_EQ(result.steps, 3);
    EXPECT_THAT(kinds, testing::Contains("end"));
  };
  train_with_observer("alone", "auto");
  open(pool::PoolKind::processes, 2);
  train_with_observer("together", "parallel");
  EXPECT_EQ(weights("together"), weights("alone"));
}

TEST_F(FitOnPool, TheClientsStopReachesProcesses) {
  open(pool::PoolKind::processes, 2);
  for (const bool is_stop : {true, false}) {
    std::stop_source source;
    train::TrainingRequest request;
    request.dataset = corners(64);
    request.network = nn::find_network("mlp");
    (is_stop ? request.stop : request.enough) = source.get_token();
    request.listener = [&](const record::Event& event) {
      if (event.kind == "first_step") source.request_stop();
    };
    Trial endless = trial(is_stop ? "stop" : "enough");
    endless.epochs = 1'000'000;
    endless.execution = "parallel";
    const train::Result result = train::fit(*session, request, options_of(endless));
    EXPECT_EQ(result.reason, is_stop ? train::EndReason::stopped : train::EndReason::observer);
    EXPECT_EQ(std::filesystem::exists(folder_ / (is_stop ? "stop" : "enough") / "model.safetensors"),
              !is_stop);
  }
}

TEST_F(FitOnPool, ParallelOpensTheDefaultPoolAndAutoOpensNone) {
  train::fit(*session, nn::find_network("mlp"), corners(64), options_of(trial("auto")));
  EXPECT_FALSE(session->current_pool().has_value());
  Trial parallel = trial("parallel");
  parallel.execution = "parallel";
  train::fit(*session, nn::find_network("mlp"), corners(64), options_of(parallel));
  ASSERT_TRUE(session->current_pool().has_value());
  EXPECT_EQ(weights("parallel"), weights("auto"));
}

// Rank 0 waits for the observer's answers, which one that throws does not give.
TEST_F(FitOnPool, WhatAnObserverOrListenerThrowsEndsTheTraining) {
  for (const auto kind : {pool::PoolKind::threads, pool::PoolKind::processes}) {
    for (const bool observes : {true, false}) {
      const std::string run = enum_names(kind)[static_cast<size_t>(kind)] + std::string(observes ? "o" : "l");
      open(kind, 2);
      train::Options options = options_of(trial(run));
      options.execution = train::Execution::parallel;
      train::TrainingRequest request;
      request.dataset = corners(64);
      request.network = nn::find_network("mlp");
      if (observes) {
        request.observer = [](const record::Event&) -> record::Control {
          throw Error(ErrorCode::internal, "broken");
        };
      } else {
        request.listener = [](const record::Event&) { throw Error(ErrorCode::internal, "broken"); };
      }
      EXPECT_THAT(error_from([&] { train::fit(*session, request, options); }).message(), HasSubstr("broken"));
      session->close_pool();
    }
  }
}

TEST_F(FitOnPool, AnErrorOfTheTrainingIsTheClients) {
  open(pool::PoolKind::threads, 2);
  train::Options options = options_of(trial("bad"));
  options.execution = train::Execution::parallel;
  options.image_size = "0x0";
  EXPECT_THAT(
      error_from([&] { train::fit(*session, nn::find_network("mlp"), corners(64), options); }).message(),
      HasSubstr("--image-size"));
  options.workers = 5;
  EXPECT_THAT(
      error_from([&] { train::fit(*session, nn::find_network("mlp"), corners(64), options); }).message(),
      HasSubstr("5 workers in a pool of 2"));
  session->close_pool();
  open(pool::PoolKind::processes, 2);
  EXPECT_THAT(
      error_from([&] { train::fit(*session, nn::find_network("mlp"), corners(64), options); }).message(),
      HasSubstr("5 workers in a pool of 2"));
  options.workers = 0;
  EXPECT_THAT(
      error_from([&] { train::fit(*session, nn::find_network("mlp"), corners(64), options); }).message(),
      HasSubstr("--image-size"));
}

TEST_F(FitOnPool, ALossThatIsNoNumberNamesItsShardAndRank) {
  open(pool::PoolKind::threads, 2);
  train::Options options = options_of(trial("broken"));
  options.execution = train::Execution::parallel;
  options.shuffle = data::Shuffle::never;
  options.validation_split = 0;
  options.shards = 4;
  const Error error =
      error_from([&] { train::fit(*session, nn::network<make_broken_net>("broken"), corners(64), options); });
  EXPECT_EQ(error.message(), "the loss became NaN in step 1, in shard 2");
  EXPECT_THAT(error.hint(),
              AllOf(HasSubstr("the learning rate is not the cause"), HasSubstr("your own network")));
}

TEST_F(FitOnPool, ATaskTakesOneWorkerAndReturnsItsNetwork) {
  train_alone("alone", 3);
  for (const auto kind : {pool::PoolKind::threads, pool::PoolKind::processes}) {
    const std::string run = enum_names(kind)[static_cast<size_t>(kind)];
    const Outcome outcome = open(kind, 2).parfeval(train_task, trial(run, 3)).get();
    EXPECT_EQ(outcome.reason, "finished");
    EXPECT_EQ(outcome.workers, 1);
    EXPECT_EQ(weights(run), weights("alone"));
    const auto here = train::predict(train::model_of(outcome.network), corners(40), {.mini_batch_size = 16});
    const auto there =
        train::predict(train::model_of_run(folder_ / "alone"), corners(40), {.mini_batch_size = 16});
    for (size_t i = 0; i < here.size(); ++i) EXPECT_EQ(here[i].scores, there[i].scores);
  }
}

TEST_F(FitOnPool, AGroupTrainsOnceTogether) {
  train_alone("alone");
  for (const auto kind : {pool::PoolKind::threads, pool::PoolKind::processes}) {
    const std::string run = enum_names(kind)[static_cast<size_t>(kind)];
    const auto outcomes = open(kind, 3).spmd(train_task, trial(run), {.workers = 2});
    ASSERT_EQ(outcomes.size(), 2U);
    for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.workers, 2);
    EXPECT_EQ(weights(run), weights("alone"));
  }
}

TEST_F(FitOnPool, MultiGpuNeedsAGroup) {
  Trial alone = trial("alone");
  alone.execution = "multi-gpu";
  const Error error = error_from([&] { open(pool::PoolKind::threads, 2).parfor(train_task, {alone}); });
  EXPECT_EQ(error.code(), ErrorCode::invalid_option);
  EXPECT_THAT(error.message(), HasSubstr("needs several workers"));
  EXPECT_THAT(error.hint(), HasSubstr(".workers = 2"));
}

TEST_F(FitOnPool, CancelStopsTheTraining) {
  for (const auto kind : {pool::PoolKind::threads, pool::PoolKind::processes}) {
    Trial endless = trial(std::string("endless-") + enum_names(kind)[static_cast<size_t>(kind)]);
    endless.epochs = 1'000'000;
    const auto future = open(kind, 1).parfeval(train_task, endless);
    while (!std::filesystem::exists(std::filesystem::path(endless.output) / "options.json"))
      std::this_thread::sleep_for(5ms);
    future.cancel();
    ASSERT_TRUE(future.wait(20s));
    EXPECT_EQ(future.state(), pool::FutureState::cancelled);
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(endless.output) / "options.json"))
        << "what was saved stays";
  }
}

TEST_F(FitOnPool, ACancelledGroupLeavesAStoppedRun) {
  for (const auto kind : {pool::PoolKind::threads, pool::PoolKind::processes}) {
    Trial endless = trial(std::string("cancelled-") + enum_names(kind)[static_cast<size_t>(kind)]);
    endless.epochs = 1'000'000;
    const auto future = open(kind, 2).parfeval(train_task, endless, {.workers = 2});
    const auto has_begun = [&] {
      const auto status = record::read_status(endless.output);
      return status && status->step > 2;
    };
    while (!has_begun() && !future.done()) std::this_thread::sleep_for(5ms);
    future.cancel();
    ASSERT_TRUE(future.wait(20s));
    EXPECT_EQ(record::read_status(endless.output)->state, record::RunState::stopped);
  }
}

TEST_F(FitOnPool, AskedToStopTheTrainingEndsWithItsWeights) {
  for (const auto kind : {pool::PoolKind::threads, pool::PoolKind::processes}) {
    Trial endless = trial(std::string("asked-") + enum_names(kind)[static_cast<size_t>(kind)]);
    endless.epochs = 1'000'000;
    const auto future = open(kind, 2).parfeval(train_task, endless, {.workers = 2});
    while (!std::filesystem::exists(std::filesystem::path(endless.output) / "options.json"))
      std::this_thread::sleep_for(5ms);
    future.ask_to_stop();
    ASSERT_TRUE(future.wait(20s));
    const Outcome outcome = future.get();
    EXPECT_EQ(outcome.reason, "observer");
    EXPECT_FALSE(outcome.network.weights.empty());
  }
}

TEST_F(FitOnPool, TheClientShowsALineForEachTrial) {
  for (const auto kind : {pool::PoolKind::threads, pool::PoolKind::processes}) {
    const std::string name = enum_names(kind)[static_cast<size_t>(kind)];
    std::FILE* out = std::tmpfile();
    {
      const train::TrialProgress progress(out);
      open(kind, 2).parfor(shown_task, {trial(name + "-1", 1), trial(name + "-2", 2)},
                           {.queue = progress.queue()});
    }
    std::string text(static_cast<size_t>(std::ftell(out)), '\0');
    std::rewind(out);
    ASSERT_EQ(std::fread(text.data(), 1, text.size(), out), text.size());
    std::fclose(out);
    for (const char* seed : {"1", "2"}) {
      EXPECT_THAT(text, HasSubstr("seed " + std::string(seed) + "  epoch 1/2  loss "));
      EXPECT_THAT(text, HasSubstr("seed " + std::string(seed) + "  finished, held-out accuracy "));
      EXPECT_TRUE(std::filesystem::exists(folder_ / (name + "-" + seed) / "curves.svg"));
    }
  }
}

TEST_F(FitOnPool, TrialsOfOneProcessDecodeOnce) {
  const auto share = std::make_shared<data::ImageShare>();
  const auto kept = share->open(corners(64), {1, 8, 8, data::Resize::stretch}, 1 << 20);
  EXPECT_EQ(share->kept_bytes(), 64 * 64);
  std::vector<int64_t> seeds{1, 2, 3, 4, 5, 6};
  Corners::reads = 0;
  open(pool::PoolKind::threads, 3).parfor(seeds, [&](pool::Worker&, int64_t seed) {
    train::TrainingRequest request;
    request.dataset = corners(64);
    request.network = nn::find_network("mlp");
    request.images = share;
    train::fit(request, options_of(trial("shared-" + std::to_string(seed), seed)));
    return 0;
  });
  EXPECT_LE(Corners::reads, 64 + 3 * 8)
      << "each image once, but for those that two trials wanted at the same moment";
  EXPECT_EQ(share->kept_bytes(), 64 * 64);
  train_alone("alone", 4);
  EXPECT_EQ(weights("shared-4"), weights("alone"));
}

}  // namespace

Outcome train_once(pool::Worker&, const Trial& trial) {
  const train::Result result = train::fit(nn::find_network("mlp"), corners(64), options_of(trial));
  Outcome outcome{.reason = enum_names(result.reason)[static_cast<size_t>(result.reason)],
                  .workers = workers_of(result.output),
                  .network = {}};
  if (result.reason != train::EndReason::stopped) outcome.network = trained_network(result);
  return outcome;
}

void train_shown(pool::Worker& worker, const Trial& trial) {
  train::TrainingRequest request;
  request.dataset = corners(64);
  request.network = nn::find_network("mlp");
  request.listener = train::tell_client(worker, "seed " + std::to_string(trial.seed));
  train::fit(request, options_of(trial));
}

}  // namespace lockstep
