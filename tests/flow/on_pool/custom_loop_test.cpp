// Custom loops on pools: the same weights on every worker, and a network for the client.
#include <gmock/gmock.h>

#include "lockstep/data/mini_batch_queue.h"
#include "lockstep/device/gpu.h"
#include "lockstep/nn/losses.h"
#include "lockstep/train/custom/learnables.h"
#include "lockstep/train/custom/shard_sums.h"
#include "lockstep/train/custom/validate.h"

#include "tasks.h"

namespace lockstep {
namespace {

TEST_F(FitOnPool, ACustomLoopGivesTheSameWeightsOnEveryWorker) {
  const Scores expected = open(pool::PoolKind::threads, 1).spmd(by_hand_task, trial("")).front();
  EXPECT_EQ(expected.count, 8);
  for (const auto kind : {pool::PoolKind::threads, pool::PoolKind::processes}) {
    const pool::Pool pool = open(kind, 2);
    for (const Scores& together : pool.spmd(by_hand_task, trial(""))) EXPECT_EQ(together.hash, expected.hash);
    for (const Scores& alone : pool.parfor(by_hand_task, {trial(""), trial("")}))
      EXPECT_EQ(alone.hash, expected.hash);
  }
}

TEST_F(FitOnPool, ALoopThatClipsHasTheWeightsOfFit) {
  Trial clipped = trial("clipped");
  clipped.clip = 0.2;
  train::Options options = options_of(clipped);
  options.gradient_clip = clipped.clip;
  options.learning_rate = train::SgdmOptions{}.learning_rate;
  options.lr_schedule = train::ScheduleKind::constant;
  options.weight_decay = options.validation_split = 0;
  options.shards = clipped.shards;
  const train::Result result = train::fit(nn::find_network("mlp"), corners(64), options);
  const pool::Pool pool = open(pool::PoolKind::threads, 2);
  const auto of_fit = pool.spmd([&](pool::Worker& worker) {
    const train::BuildOptions trained{.weights = result.weights};
    return static_cast<int64_t>(train::build(worker, nn::find_network("mlp"), corners(64), trained).hash());
  });
  EXPECT_EQ(pool.spmd(by_hand_task, clipped).front().hash, of_fit.front());
  EXPECT_NE(pool.spmd(by_hand_task, trial("")).front().hash, of_fit.front()) << "nothing was clipped";
}

// GPUs here are those of the test with stand-ins (gpus_test.py), or a machine's with three of them.
TEST_F(FitOnPool, ACustomLoopSendsItsGradientsFromGpuToGpu) {
  Trial few = trial("");
  few.shards = 2;
  const Scores expected = open(pool::PoolKind::threads, 1).spmd(by_hand_task, few).front();
  for (const auto kind : {pool::PoolKind::threads, pool::PoolKind::processes}) {
    for (const Scores& one : open(kind, 3).spmd(by_hand_task, few)) {
      EXPECT_EQ(one.hash, expected.hash) << "one worker has no shard";
      const bool is_linked = one.way.ends_with(", and shared memory");
      const bool from_gpu_to_gpu = is_linked && !one.way.starts_with("a link between GPUs");
      EXPECT_EQ(from_gpu_to_gpu, device::inspect_gpus().gpus.size() >= 3) << one.way;
    }
  }
}

TEST_F(FitOnPool, WhatACustomLoopHasTrainedPredictsAtTheClient) {
  for (const char* sort : {"images", "sequences", "module"}) {
    SCOPED_TRACE(sort);
    std::vector<Scores> all;
    for (const auto kind : {pool::PoolKind::threads, pool::PoolKind::processes}) {
      for (const ByHand& made : open(kind, 2).spmd(return_task, {.output = sort})) {
        const train::Model model = train::model_of(
            made.network,
            sort == std::string("module") ? nn::network<make_plain_net>("plain_net") : nn::Network());
        const auto predictions = train::predict(
            model, sort == std::string("sequences") ? series(41) : corners(41), {.mini_batch_size = 16});
        EXPECT_EQ(train::evaluate(predictions, model.classes).accuracy, made.accuracy);
        all.push_back(scores_of(predictions));
      }
    }
    ASSERT_EQ(all.size(), 4U);
    for (const Scores& one : all) EXPECT_EQ(one.hash, all.front().hash);
  }
}

}  // namespace

// A custom loop: its steps, the hash of its weights, and the way that its gradients take.
Scores train_by_hand(pool::Worker& worker, const Trial& trial) {
  const train::BuiltModel model =
      train::build(worker, nn::find_network("mlp"), corners(64), {.seed = trial.seed});
  train::Sgdm sgdm(model.parameters());
  const auto loss = [&](const data::Shard& shard) {
    return nn::cross_entropy_sum(model.forward(shard.input), shard.target);
  };
  for (const auto& batch :
       data::MiniBatchQueue(corners(64), worker.share(),
                            {.mini_batch_size = 16, .shards = trial.shards, .epochs = trial.epochs})) {
    auto gradients = train::exchange(worker, train::loss_and_gradients(model, batch, loss)).gradients;
    if (trial.clip > 0) train::clip_gradients(model, gradients, trial.clip);
    sgdm.step(gradients);
  }
  return {sgdm.steps(), static_cast<int64_t>(model.hash()), worker.comm().way()};
}

// A custom loop over samples of the kind that trial.output names; returns the trained network.
ByHand train_and_return(pool::Worker& worker, const Trial& trial) {
  const bool sequences = trial.output == "sequences";
  const data::Dataset samples = sequences ? series(64) : corners(64);
  const nn::Network network = trial.output == "module"
                                  ? nn::network<make_plain_net>("plain_net")
                                  : nn::find_network(sequences ? "lstm_classifier" : "mlp");
  const std::vector<double> mean(static_cast<size_t>(sequences ? 2 : 1), 0.25), deviation(mean.size(), 0.5);
  const train::BuiltModel model = train::build(worker, network, samples, {.seed = trial.seed});
  train::Sgdm sgdm(model.parameters());
  const auto loss = [&](const data::Shard& shard) {
    return nn::cross_entropy_sum(model.forward(shard), shard.target);
  };
  for (const auto& batch : data::MiniBatchQueue(samples, worker.share(),
                                                {.mini_batch_size = 16,
                                                .epochs = trial.epochs,
                                                .output = {.mean = mean, .deviation = deviation}})) {
    sgdm.step(train::exchange(worker, train::loss_and_gradients(model, batch, loss)).gradients);
  }
  const double accuracy = train::accuracy(model, sequences ? series(41) : corners(41), worker.comm(),
                                          {.mean = mean, .deviation = deviation});
  ByHand made{static_cast<int64_t>(model.hash()), accuracy,
              train::trained_network(model, {.mean = mean, .deviation = deviation})};
  model.parameters().front().detach().zero_();  // this must not change what is returned
  return made;
}

}  // namespace lockstep
