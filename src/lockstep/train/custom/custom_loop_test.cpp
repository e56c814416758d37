// The functions for custom loops, on pools of threads: the same weights for any number of workers, MATLAB's
// style, agreement on data.
#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/hash.h"
#include "lockstep/base/host.h"
#include "lockstep/data/sequences.h"
#include "lockstep/data/survey.h"
#include "lockstep/train/step/batch_norm.h"
#include "lockstep/train/custom/learnables.h"
#include "lockstep/train/custom/shard_sums.h"
#include "lockstep/train/custom/test_loops.h"
#include "lockstep/train/custom/validate.h"

namespace lockstep::train {
namespace {

using namespace test;
using ::testing::HasSubstr;

// Images in files, listed by their paths below a root.
class Files : public Halves {
 public:
  Files(std::string root, std::vector<std::string> paths)
      : Halves(static_cast<int64_t>(paths.size())), root_(std::move(root)), paths_(std::move(paths)) {}
  std::string source(int64_t index) const override {
    return root_ + "/" + paths_.at(static_cast<size_t>(index));
  }
  uint64_t listing_hash() const override {
    uint64_t hash = 0;
    for (const std::string& path : paths_) hash = hash_of(path, hash);
    return hash;
  }

 private:
  std::string root_;
  std::vector<std::string> paths_;
};

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

// In each epoch a worker has other samples, so every worker gets each of them. Rank 1 reads after rank 0, so
// they never decode one sample at the same time.
TEST(CustomLoop, WorkersThatShareTheirImagesDecodeEachOnce) {
  const auto counted = std::make_shared<CountedHalves>(90);
  on_workers(2, [counted](pool::Worker& worker) {
    if (worker.rank() == 1) worker.comm().barrier();
    data::MiniBatchQueue queue(
        data::Dataset(counted), worker.share(),
        {.mini_batch_size = 20, .order = {.seed = 7}, .epochs = 5, .shared = shared_images(worker)});
    while (queue.next()) {
    }
    if (worker.rank() == 0) worker.comm().barrier();
    worker.comm().barrier();  // images are kept as long as rank 0's queue exists
    return 0;
  });
  EXPECT_EQ(counted->reads(), 90);
}

TEST(CustomLoop, SharedImagesAndKeptValidationDataChangeNoBit) {
  const auto run = [](int64_t workers, bool share) {
    const data::Dataset images = halves(90);
    const auto held_out = std::make_shared<CountedHalves>(41);
    const auto numbers = on_workers(workers, [&](pool::Worker& worker) {
      const BuiltModel model = build(worker, net(), images, {.seed = 3});
      Sgdm sgdm(model.parameters(), {.learning_rate = 0.02});
      data::QueueOptions options{.mini_batch_size = 20, .shards = 5, .order = {.seed = 7}, .epochs = 3};
      if (share) options.shared = shared_images(worker);
      std::vector<double> losses;
      for (const auto& batch : data::MiniBatchQueue(images, worker.share(), options)) {
        sgdm.step(exchange(worker, loss_and_gradients(model, batch, loss_of(model))).gradients);
        if (batch.ends_epoch) losses.push_back(validate(model, data::Dataset(held_out), worker.comm()).loss);
      }
      const auto not_kept =
          std::make_shared<const data::ImageSet>(halves(41), data::format_of(halves(41)), /*most_bytes=*/0);
      EXPECT_EQ(validate(model, not_kept, worker.comm()).loss, losses.back());
      return std::pair(model.hash(), losses);
    });
    EXPECT_EQ(held_out->reads(), 41) << "three validations";
    return numbers;
  };
  const auto expected = run(1, false);
  EXPECT_EQ(expected.second.size(), 3U);
  for (const int64_t workers : {1, 2, 3}) EXPECT_EQ(run(workers, true), expected) << workers << " workers";
}

TEST(CustomLoop, AModelKeepsTheLastDatasetItWasValidatedOn) {
  on_workers(1, [](pool::Worker& worker) {
    const data::ImageShare& share = *shared_images(worker).share;
    constexpr int64_t kImageBytes = 36;
    {
      const BuiltModel model = build(worker, net(), halves(41));
      accuracy(model, halves(41), worker.comm());
      EXPECT_EQ(share.kept_bytes(), 41 * kImageBytes);
      accuracy(model, halves(30), worker.comm());
      EXPECT_EQ(share.kept_bytes(), 30 * kImageBytes);
      EXPECT_THROW(accuracy(model, {}, worker.comm()), Error);
    }
    EXPECT_EQ(share.kept_bytes(), 0);
    return 0;
  });
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

// The result of fp16-mixed: weights, steps, which of them were skipped, and the scale at the end.
using Scaled = std::tuple<uint64_t, int64_t, std::vector<int64_t>, double>;

// With a loss that is so large that the first scales overflow in 16 bits.
template <class Updater>
Scaled train_scaled(pool::Worker& worker) {
  const BuiltModel model = build(worker, net(), halves(90), {.seed = 3, .precision = Precision::fp16_mixed});
  Updater updater(model.parameters());
  std::vector<int64_t> skipped;
  EXPECT_EQ(model.loss_scale(), 65536);
  const data::QueueOptions options{.mini_batch_size = 20, .shards = 5, .order = {.seed = 7}, .epochs = 3};
  const auto loss = [&](const data::Shard& shard) { return loss_of(model)(shard) * 20; };
  for (const auto& batch : data::MiniBatchQueue(halves(90), worker.share(), options)) {
    const double scale = model.loss_scale();
    const uint64_t before = model.hash();
    const MiniBatchSums whole = exchange(worker, loss_and_gradients(model, batch, loss));
    EXPECT_LT(whole.loss, 100) << "the loss itself is not scaled";
    updater.step(whole.gradients);
    EXPECT_EQ(whole.gradients.empty(), whole.skipped);
    EXPECT_EQ(model.loss_scale(), whole.skipped ? scale / 2 : scale);
    if (whole.skipped) skipped.push_back(batch.iteration);
    for (const at::Tensor& gradient : whole.gradients) {
      EXPECT_LT(gradient.abs().max().item<double>(), 1000) << "the scale is out of it";
    }
    EXPECT_NE(before, model.hash()) << "running statistics follow in any case";
  }
  return {model.hash(), updater.steps(), skipped, model.loss_scale()};
}

TEST(CustomLoop, HalfPrecisionScalesTheLossAndSkipsTheSameStepsOnAllRanks) {
  for (const auto& run : {train_scaled<Sgdm>, train_scaled<Adam>}) {
    const Scaled expected = on_workers(1, run);
    const auto& [hash, steps, skipped, scale] = expected;
    EXPECT_EQ(steps, 15);
    EXPECT_FALSE(skipped.empty());
    EXPECT_LT(skipped.size(), 15U);
    EXPECT_EQ(scale, std::ldexp(65536, -static_cast<int>(skipped.size())));
    for (const int64_t workers : {2, 3})
      EXPECT_EQ(on_workers(workers, run), expected) << workers << " workers";
  }
}

TEST(CustomLoop, ALossThatNoScaleHelpsIsAnError) {
  EXPECT_THAT(
      error_on_workers(2,
                       [](pool::Worker& worker) {
                         const BuiltModel model =
                             build(worker, net(), halves(20), {.precision = Precision::fp16_mixed});
                         const auto not_finite = [&](const data::Shard& shard) {
                           return (model.forward(shard.input).to(at::kFloat) * 0).abs().sqrt().sum();
                         };
                         const data::QueueOptions options{.mini_batch_size = 10, .shards = 2, .epochs = 30};
                         for (const auto& batch : data::MiniBatchQueue(halves(20), worker.share(), options)) {
                           exchange(worker, loss_and_gradients(model, batch, not_finite));
                         }
                       }),
      HasSubstr("the gradients of step 41 are not finite, however small the loss is scaled"));
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
  const Moments low{4, {0.0}, {3.0}}, high{4, {2.0}, {3.0}};  // variances 1, means 0 and 2
  EXPECT_DOUBLE_EQ(averaged(low, high).mean[0], 1);
  EXPECT_DOUBLE_EQ(averaged(low, high).deviation[0] / 7, 1);
  EXPECT_DOUBLE_EQ(pooled(low, high).deviation[0] / 7, (3 + 3 + 8 * 1.0) / 7);
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

TEST(CustomLoop, EndsWhenValidationsGetNoBetter) {
  const auto steps = [](pool::Worker& worker) {
    const BuiltModel model = build(worker, net(), halves(90), {.seed = 3});
    Sgdm sgdm(model.parameters(), {.learning_rate = 0.02});
    Patience patience(2);
    std::vector<double> accuracies;
    for (const auto& batch :
         data::MiniBatchQueue(halves(90), worker.share(),
                              {.mini_batch_size = 20, .shards = 5, .order = {.seed = 7}, .epochs = 20})) {
      sgdm.step(exchange(worker, loss_and_gradients(model, batch, loss_of(model))).gradients);
      const Validation validation = validate(model, halves(41), worker.comm());
      accuracies.push_back(validation.accuracy);
      if (patience.ends_after(validation)) break;
    }
    EXPECT_EQ(patience.best_accuracy(), *std::max_element(accuracies.begin(), accuracies.end()));
    EXPECT_FALSE(patience.is_best());
    return accuracies;
  };
  const std::vector<double> one = on_workers(1, steps);
  ASSERT_GE(one.size(), 3U);
  EXPECT_LT(one.size(), 100U) << "it never ended";
  EXPECT_LE(std::max(one.back(), one[one.size() - 2]), *std::max_element(one.begin(), one.end() - 2));
  EXPECT_EQ(on_workers(3, steps), one);
}

TEST(Patience, ALossThatIsNoNumberIsNoBetter) {
  Patience patience(2);
  EXPECT_FALSE(patience.ends_after({.loss = 1, .accuracy = 0.5}));
  EXPECT_TRUE(patience.is_best());
  EXPECT_FALSE(patience.ends_after({.loss = std::numeric_limits<double>::quiet_NaN(), .accuracy = 0.9}));
  EXPECT_TRUE(patience.ends_after({.loss = 1, .accuracy = 0.5}));
  EXPECT_EQ(patience.best_accuracy(), 0.5);
  EXPECT_THROW(Patience(0), Error);
}

TEST(CustomLoop, OtherDataIsNamedBeforeTheFirstStep) {
  const std::string error = error_on_workers(
      3, [](pool::Worker& worker) { build(worker, net(), worker.rank() == 2 ? halves(40, 8) : halves(41)); });
  const std::string host = " (" + host_name() + ")";
  EXPECT_THAT(error, HasSubstr("the ranks have different data: sample 40 is \"half 40\" on rank 0" + host +
                               ", and rank 2" + host + " has only 40 samples"));
  EXPECT_EQ(error_on_workers(2, [](pool::Worker& worker) { check_same_dataset(worker.comm(), halves(41)); }),
            "");
  const std::string alike = error_on_workers(2, [](pool::Worker& worker) {
    check_same_dataset(worker.comm(), halves(41, static_cast<uint64_t>(worker.rank())));
  });
  EXPECT_THAT(alike, HasSubstr("the samples on rank 0" + host + " and on rank 1" + host +
                               " are alike, but of other classes or chosen from other data"));
}

// Each rank has the files in another folder, which does not count as a difference.
TEST(CustomLoop, TheFirstFileThatDiffersIsNamedWithItsPathOnBothRanks) {
  const auto error_with = [](const std::string& changed) {
    return error_on_workers(3, [changed](pool::Worker& worker) {
      std::vector<std::string> paths;
      for (int64_t i = 0; i < 30; ++i) paths.push_back((i < 15 ? "a/" : "b/") + std::to_string(i) + ".png");
      if (worker.rank() == 1 && !changed.empty()) paths[17] = paths[20] = changed;
      check_same_dataset(worker.comm(), data::Dataset(std::make_shared<Files>(
                                            "/disk" + std::to_string(worker.rank()) + "/data", paths)));
    });
  };
  const std::string host = " (" + host_name() + ")";
  EXPECT_EQ(error_with(""), "");
  EXPECT_THAT(error_with("b/other.png"), HasSubstr("sample 17 is \"/disk0/data/b/17.png\" on rank 0" + host +
                                                   " and \"/disk1/data/b/other.png\" on rank 1" + host));
}

TEST(CustomLoop, TheFirstSequenceWithOtherValuesIsNamed) {
  const std::string error = error_on_workers(2, [](pool::Worker& worker) {
    std::vector<data::Sequence> sequences(5, data::Sequence{.values = {1, 2}, .label = 0});
    if (worker.rank() == 1) sequences[3].values[1] = 3;
    check_same_dataset(worker.comm(), data::make_sequences(1, {"low", "high"}, sequences));
  });
  EXPECT_THAT(error, HasSubstr("sample 3 is \"sequence 3\" of class 0 \"low\" on rank 0 ("));
  EXPECT_THAT(error, HasSubstr(") and \"sequence 3\" of class 0 \"low\" with other values on rank 1 ("));
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

TEST(BuiltModel, LabelledInputIsPermutedAndChecked) {
  on_workers(1, [](pool::Worker& worker) {
    const BuiltModel model = build(worker, net(), {1, 6, 8, 2});
    const at::Tensor images = at::rand({5, 1, 6, 8});
    const at::Tensor logits = model.predict(images);
    EXPECT_EQ(logits.sizes(), at::IntArrayRef({5, 2}));
    EXPECT_EQ(model.forward(images.permute({2, 3, 1, 0}), "SSCB").sizes(), at::IntArrayRef({5, 2}));
    EXPECT_TRUE(at::equal(model.predict(images), logits));  // a training pass has not moved the statistics
    EXPECT_THROW(model.forward(images.permute({3, 2, 1, 0}), "SSCB"), Error);  // height and width changed
    EXPECT_THROW(model.forward(images, "BCS"), Error);
    return 0;
  });
}

TEST(BuiltModel, FrozenLayersAndFactorsHold) {
  on_workers(1, [](pool::Worker& worker) {
    const BuiltModel model = build(worker, net(), halves(20));
    model.freeze({"convolution"});
    EXPECT_THROW(model.freeze({"konvolution"}), Error);
    const auto before =
        sgdm_update(model.parameters(), model.parameters(), {}, {.learning_rate = 0}).parameters;  // copies
    Sgdm sgdm(model.parameters(), {.learning_rate = 0.1, .weight_decay = 0.1},
              learn_rate_factors(model, "head", 1, 0));
    for (const auto& batch : data::MiniBatchQueue(halves(20), worker.share(), {}))
      sgdm.step(exchange(worker, loss_and_gradients(model, batch, loss_of(model))).gradients);
    const auto after = model.parameters();
    const auto names = model.parameter_names();
    for (size_t i = 0; i < after.size(); ++i)
      EXPECT_EQ(!at::equal(after[i], before[i]), names[i].starts_with("head.")) << names[i];
    update(model, after, [](const std::string& name, const at::Tensor& parameter, const at::Tensor&) {
      return name == "head.bias" ? at::zeros_like(parameter) : parameter;
    });
    EXPECT_EQ(model.parameters().back().abs().sum().item<float>(), 0);
    return 0;
  });
}

}  // namespace
}  // namespace lockstep::train
