// Custom loops on pools of threads: the same weights for any number of workers, and what a loop is refused.
#include <cmath>
#include <filesystem>
#include <limits>

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/test_folder.h"
#include "lockstep/train/custom/learnables.h"
#include "lockstep/train/custom/run_record.h"
#include "lockstep/train/custom/shard_sums.h"
#include "lockstep/train/custom/test_loops.h"
#include "lockstep/train/custom/validate.h"
#include "lockstep/train/step/batch_norm.h"

namespace lockstep::train {
namespace {

using namespace test;
using ::testing::HasSubstr;

// A loop as a user writes it.
Outcome train_over_shards(pool::Worker& worker, StateAggregation state,
                          const BuildOptions& options = {.seed = 3}) {
  const BuiltModel model = build(worker, net(), halves(90), options);
  Sgdm sgdm(model.parameters(), {.learning_rate = 0.02, .weight_decay = 1e-4});
  double loss = 0;
  for (const auto& batch :
       data::MiniBatchQueue(halves(90), worker.share(),
                            {.mini_batch_size = 20, .shards = 5, .order = {.seed = 7}, .epochs = 3})) {
    const MiniBatchSums sums = exchange(worker, loss_and_gradients(model, batch, loss_of(model)), state);
    sgdm.step(sums.gradients);
    loss = sums.loss;
  }
  return {model.hash(), loss,
          accuracy(model, halves(41), worker.comm(), {.mini_batch_size = 16, .shards = 3})};
}

TEST(CustomLoop, AnyNumberOfWorkersGivesTheSameBits) {
  const auto run = [](pool::Worker& worker) { return train_over_shards(worker, StateAggregation::pooled); };
  const Outcome expected = on_workers(1, run);
  EXPECT_GT(expected.accuracy, 0.9);
  for (const int64_t workers : {2, 3, 7})
    EXPECT_EQ(on_workers(workers, run), expected) << workers << " workers";
}

TEST(CustomLoop, OtherPrecisionsAndAveragedStatesRepeatToo) {
  const auto average = [](pool::Worker& worker) {
    return train_over_shards(worker, StateAggregation::average);
  };
  const auto pooled = [](pool::Worker& worker) {
    return train_over_shards(worker, StateAggregation::pooled);
  };
  EXPECT_EQ(on_workers(1, average), on_workers(3, average));
  EXPECT_NE(on_workers(1, average).hash, on_workers(1, pooled).hash);
  for (const Precision precision : {Precision::double_, Precision::bf16_mixed}) {
    const auto run = [precision](pool::Worker& worker) {
      return train_over_shards(worker, StateAggregation::pooled, {.seed = 3, .precision = precision});
    };
    EXPECT_EQ(on_workers(1, run), on_workers(2, run));
  }
}

TEST(CustomLoop, ParametersKeepNoGradientOfOneShard) {
  on_workers(1, [](pool::Worker& worker) {
    const BuiltModel model = build(worker, net(), halves(20));
    data::MiniBatchQueue queue(halves(20), worker.share(), {.mini_batch_size = 20, .shards = 4});
    loss_and_gradients(model, *queue.next(), loss_of(model));
    for (const at::Tensor& parameter : model.parameters()) EXPECT_FALSE(parameter.grad().defined());
    return 0;
  });
}

TEST(CustomLoop, ClippedGradientsHaveTheNormThatWasAskedFor) {
  const auto run = [](pool::Worker& worker) {
    const BuiltModel model = build(worker, net(), halves(40), {.seed = 3});
    data::MiniBatchQueue queue(halves(40), worker.share(), {.mini_batch_size = 40, .shards = 4});
    auto gradients = exchange(worker, loss_and_gradients(model, *queue.next(), loss_of(model))).gradients;
    const double norm = clip_gradients(model, gradients, 1e9);
    EXPECT_EQ(clip_gradients(model, gradients, norm / 2), norm);
    EXPECT_NEAR(clip_gradients(model, gradients, 1e9), norm / 2, norm * 1e-5);
    double squares = 0;
    for (const at::Tensor& gradient : gradients)
      squares += gradient.to(at::kDouble).pow(2).sum().item<double>();
    EXPECT_NEAR(std::sqrt(squares), norm / 2, norm * 1e-5);
    EXPECT_THROW(clip_gradients(model, gradients, 0), Error);
    gradients.pop_back();
    EXPECT_THROW(clip_gradients(model, gradients, 1), Error);
    gradients.clear();
    EXPECT_EQ(clip_gradients(model, gradients, 1), 0);
    return norm;
  };
  EXPECT_EQ(on_workers(1, run), on_workers(3, run));
}

TEST(CustomLoop, ALossThatPredictsKeepsItsPrecision) {
  on_workers(1, [](pool::Worker& worker) {
    const BuiltModel model = build(worker, net(), halves(10), {.precision = Precision::bf16_mixed});
    data::MiniBatchQueue queue(halves(10), worker.share(), {.mini_batch_size = 10, .shards = 1});
    loss_and_gradients(model, *queue.next(), [&](const data::Shard& shard) {
      EXPECT_EQ(model.predict(shard.input).scalar_type(), at::kBFloat16);
      const at::Tensor logits = model.forward(shard.input);
      EXPECT_EQ(logits.scalar_type(), at::kBFloat16);
      return nn::cross_entropy_sum(logits.to(at::kFloat), shard.target);
    });
    return 0;
  });
}

TEST(CustomLoop, AveragedVarianceLosesThePartBetweenShards) {
  const std::vector<BatchNormInfo> norm{{.channels = 1}};
  const Moments low{4, {0.0, 3.0}}, high{4, {2.0, 3.0}};  // variances 1, means 0 and 2
  EXPECT_DOUBLE_EQ(averaged(norm, low, high).values[0], 1);
  EXPECT_DOUBLE_EQ(averaged(norm, low, high).values[1] / 7, 1);
  EXPECT_DOUBLE_EQ(pooled(norm, low, high).values[1] / 7, (3 + 3 + 8 * 1.0) / 7);
}

// Every rank has its part of the data. All end when the first rank has no more, so the rest of the others'
// data is dropped.
TEST(CustomLoop, PartitionsEndTogetherAndRanksAgree) {
  const auto run = [](pool::Worker& worker) {
    const BuiltModel model = build(worker, net(), halves(90), {.seed = 3 + worker.rank()});
    const data::Dataset own = halves(50).partition(worker.size(), worker.rank()).shuffle(5);
    data::MiniBatchQueue queue(own, {},
                               {.mini_batch_size = part_of(10, worker.size(), worker.rank()).count(),
                                .shards = 1,
                                .partial = data::PartialBatch::discard});
    SgdmUpdate sgdm;
    int64_t steps = 0;
    while (worker.comm().all_reduce(queue.has_data(), comm::FlagReduction::and_)) {
      const auto sums = exchange_ranks(worker, loss_and_gradients(model, *queue.next(), loss_of(model)));
      EXPECT_EQ(sums.count, 10);
      sgdm = sgdm_update(model.parameters(), sums.gradients, sgdm.velocity, {.learning_rate = 0.01});
      model.assign(sgdm.parameters);
      ++steps;
    }
    return std::pair(model.hash(), steps);
  };
  EXPECT_EQ(on_workers(1, run).second, 5);
  EXPECT_EQ(on_workers(3, run).second,
            4);  // rank 0 takes 4 at a time of its 17 samples, the others 3 of 17 and of 16
}

TEST(CustomLoop, ImagesWithoutLabelsAreRefused) {
  class Unlabelled : public Halves {
   public:
    using Halves::Halves;
    int64_t label(int64_t) const override { return -1; }
  };
  EXPECT_THAT(error_on_workers(2,
                               [](pool::Worker& worker) {
                                 const data::Dataset images(std::make_shared<Unlabelled>(40));
                                 const BuiltModel model = build(worker, net(), images);
                                 for (const auto& batch :
                                      data::MiniBatchQueue(images, worker.share(), {.mini_batch_size = 20}))
                                   loss_and_gradients(model, batch, loss_of(model));
                               }),
              HasSubstr("no target to learn from"));
}

TEST(CustomLoop, AStopThatOneRankWantsIsAgreedByAll) {
  const auto run = [](pool::Worker& worker) {
    const BuiltModel model = build(worker, net(), halves(90));
    Sgdm sgdm(model.parameters());
    for (const auto& batch : data::MiniBatchQueue(halves(90), worker.share(),
                                                  {.mini_batch_size = 10, .shards = 4, .epochs = 9})) {
      sgdm.step(exchange(worker, loss_and_gradients(model, batch, loss_of(model))).gradients);
      if (worker.comm().all_reduce(worker.rank() == 1 && sgdm.steps() == 3, comm::FlagReduction::or_)) break;
    }
    return sgdm.steps();
  };
  EXPECT_EQ(on_workers(3, run), 3);
}

// Not only when a checkpoint is due.
TEST(CustomLoop, ARunFolderThatIsRenamedEndsTheLoop) {
  const lockstep::test::TemporaryFolder temporary;
  const std::filesystem::path folder = temporary.path() / "run";
  const std::string error = error_on_workers(1, [folder](pool::Worker& worker) {
    const BuiltModel model = build(worker, net(), halves(90));
    Sgdm sgdm(model.parameters());
    const data::QueueOptions options{.mini_batch_size = 10, .shards = 4, .epochs = 3000};
    record_run(worker, model, &sgdm, {.output = folder, .checkpoint_every = 1'000'000}, [&](RunRecord& run) {
      for (const auto& batch : data::MiniBatchQueue(halves(90), worker.share(), run.from_here(options))) {
        const auto whole = exchange(worker, loss_and_gradients(model, batch, loss_of(model)));
        sgdm.step(whole.gradients);
        if (run.steps() == 3) std::filesystem::rename(folder, folder.parent_path() / "other");
        if (!run.step(batch, whole)) return;
      }
    });
  });
  EXPECT_THAT(error, HasSubstr("was removed or renamed"));
}

TEST(CustomLoop, AMeanOrALossWithoutGraphIsRefused) {
  const auto error = [](const ModelLoss& loss) {
    return error_on_workers(1, [loss](pool::Worker& worker) {
      const BuiltModel model = build(worker, net(), halves(20));
      for (const auto& batch : data::MiniBatchQueue(halves(20), worker.share(), {}))
        loss_and_gradients(model, batch, loss);
    });
  };
  EXPECT_THAT(error([](const data::Shard&) { return at::Tensor(); }), HasSubstr("gave no tensor"));
  EXPECT_THAT(error([](const data::Shard& shard) { return shard.input.sum(); }),
              HasSubstr("has no graph back to the learnables"));
}

TEST(CustomLoop, ALossThatIsNoNumberOnOneRankIsTheClientsError) {
  using Limits = std::numeric_limits<double>;
  for (const auto& [factor, word] :
       {std::pair(Limits::quiet_NaN(), "NaN"), std::pair(Limits::infinity(), "infinite")}) {
    const std::string error = error_on_workers(2, [factor = factor](pool::Worker& worker) {
      const BuiltModel model = build(worker, net(), halves(40));
      for (const auto& batch :
           data::MiniBatchQueue(halves(40), worker.share(), {.mini_batch_size = 20, .shards = 4})) {
        const double wrong = worker.rank() == 1 && batch.iteration == 1 ? factor : 1;
        exchange(worker, loss_and_gradients(model, batch, [&](const data::Shard& shard) {
                   return loss_of(model)(shard) * wrong;
                 }));
      }
    });
    EXPECT_THAT(error, HasSubstr("the loss became " + std::string(word) + " in step 2, in shard 2"));
  }
}

TEST(CustomLoop, GradientsThatAreKeptAreThoseOfTheirStep) {
  const auto run = [](pool::Worker& worker) {
    const BuiltModel model = build(worker, net(), halves(40), {.seed = 3});
    std::vector<at::Tensor> kept, copies;
    for (const auto& batch :
         data::MiniBatchQueue(halves(40), worker.share(),
                              {.mini_batch_size = 20, .shards = 4, .order = {.seed = 7}, .epochs = 2})) {
      const auto gradients = exchange(worker, loss_and_gradients(model, batch, loss_of(model))).gradients;
      if (batch.iteration > 0) continue;
      kept = gradients;
      for (const at::Tensor& gradient : gradients) copies.push_back(gradient.clone());
    }
    std::vector<float> values;
    for (size_t i = 0; i < kept.size(); ++i) {
      EXPECT_TRUE(at::equal(kept[i], copies[i])) << i;
      const at::Tensor host = kept[i].cpu();
      values.insert(values.end(), host.const_data_ptr<float>(), host.const_data_ptr<float>() + host.numel());
    }
    return values;
  };
  EXPECT_EQ(on_workers(1, run), on_workers(2, run));
}

// A tensor without values cannot be copied. It shows without a GPU that the loss would have got it on the
// model's device.
TEST(CustomLoop, TargetsComeToTheModelsDevice) {
  const std::string error = error_on_workers(1, [](pool::Worker& worker) {
    const BuiltModel model = build(worker, net(), halves(20));
    data::MiniBatchQueue queue(halves(20), worker.share(), {});
    data::Batch batch = *queue.next();
    for (data::Shard& shard : batch.shards) shard.target = shard.target.to(at::kMeta);
    loss_and_gradients(model, batch, loss_of(model));
  });
  EXPECT_THAT(error, HasSubstr("Cannot copy out of meta tensor"));
}

TEST(CustomLoop, AQueueForEachEpochGivesTheBitsOfOneForAll) {
  const data::QueueOptions all{
      .mini_batch_size = 20, .shards = 2, .augment = data::Augment::parse("flip"), .epochs = 2};
  data::QueueOptions first = all, second = all;
  first.epochs = 1;
  second.start = {.epoch = 1};
  const auto hash_after = [](const std::vector<data::QueueOptions>& queues) {
    return on_workers(1, [queues](pool::Worker& worker) {
      const BuiltModel model = build(worker, net(), halves(40), {.seed = 3});
      Sgdm sgdm(model.parameters());
      for (const data::QueueOptions& options : queues) {
        for (const auto& batch : data::MiniBatchQueue(halves(40), worker.share(), options))
          sgdm.step(exchange(worker, loss_and_gradients(model, batch, loss_of(model))).gradients);
      }
      return model.hash();
    });
  };
  EXPECT_EQ(hash_after({first, second}), hash_after({all}));
}

}  // namespace
}  // namespace lockstep::train
