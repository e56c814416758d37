// Queues of a Dataset, for loops of one's own: input, targets and devices as they are asked for.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/data/mini_batch_queue.h"
#include "lockstep/data/sequences.h"
#include "lockstep/data/survey.h"
#include "lockstep/data/test_queues.h"

namespace lockstep::data {
namespace {

using test::cutting_options;
using test::Grids;
using test::plain_numbers;
using testing::HasSubstr;

TEST(DatasetQueue, IsWalkedOverAndGivesInput) {
  std::vector<int64_t> iterations, epochs;
  int64_t samples = 0;
  for (const auto& batch :
       MiniBatchQueue(plain_numbers(100), {},
                      {.mini_batch_size = 40, .shards = 4, .epochs = 2, .output = {.mean = {0.5}}})) {
    iterations.push_back(batch.iteration);
    epochs.push_back(batch.cursor.epoch);
    EXPECT_EQ(batch.ends_epoch, batch.cursor.step == 2);
    for (const Shard& shard : batch.shards) {
      EXPECT_TRUE(at::equal(shard.input, to_input(shard.images, {.mean = {0.5}})));
      EXPECT_TRUE(at::equal(shard.target, shard.images.select(3, 0).flatten().to(at::kLong) % 2));
      samples += shard.count;
    }
  }
  EXPECT_EQ(iterations, (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(epochs, (std::vector<int64_t>{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(samples, 200);
}

TEST(DatasetQueue, InputIsOfThePartThatIsCutOut) {
  QueueOptions options = cutting_options("random-crop,flip");
  options.shards = 1;
  options.output.device = OutputDevice::cpu;
  MiniBatchQueue queue(Dataset(std::make_shared<Grids>()), Share{}, options);
  const Batch batch = queue.next().value();
  EXPECT_EQ(batch.shards.front().input.sizes(), at::IntArrayRef({7, 1, 3, 4}));
}

TEST(DatasetQueue, DimensionsTypeAndOneHotAreAsAskedFor) {
  MiniBatchQueue queue(plain_numbers(8), {},
                       {.mini_batch_size = 8,
                        .shards = 1,
                        .output = {.format = "SSCB",
                                   .target_format = "CB",
                                   .one_hot = true,
                                   .type = at::kDouble,
                                   .device = OutputDevice::cpu}});
  const auto batch = queue.next();
  const Shard& shard = batch->shards.front();
  EXPECT_EQ(shard.input.sizes(), at::IntArrayRef({1, 2, 1, 8}));
  EXPECT_EQ(shard.input.scalar_type(), at::kDouble);
  EXPECT_EQ(shard.target.sizes(), at::IntArrayRef({2, 8}));
  EXPECT_TRUE(at::equal(shard.target.argmax(0), shard.images.select(3, 0).flatten().to(at::kLong) % 2));
  EXPECT_TRUE(at::equal(shard.target.sum(0), at::ones({8}, at::kDouble)));
}

TEST(DatasetQueue, PartialMiniBatchesAreReturnedOrDiscarded) {
  const auto counts = [](PartialBatch partial) {
    std::vector<int64_t> counts;
    for (const auto& batch :
         MiniBatchQueue(plain_numbers(100), {1, 2}, {.mini_batch_size = 40, .epochs = 2, .partial = partial}))
      counts.push_back(batch.global_count);
    return counts;
  };
  EXPECT_EQ(counts(PartialBatch::return_), (std::vector<int64_t>{40, 40, 20, 40, 40, 20}));
  EXPECT_EQ(counts(PartialBatch::discard), (std::vector<int64_t>{40, 40, 40, 40}));
  EXPECT_THROW(
      MiniBatchQueue(plain_numbers(30), {}, {.mini_batch_size = 40, .partial = PartialBatch::discard}),
      Error);
}

TEST(DatasetQueue, SharedImagesAreKeptOnceAndWithinTheirBytes) {
  const Dataset dataset = plain_numbers(100);
  const auto images = std::make_shared<ImageShare>();
  const auto queue = [&](Share share, const Dataset& of, int64_t most_bytes) {
    return std::make_unique<MiniBatchQueue>(
        of, share, QueueOptions{.mini_batch_size = 50, .shared = {images, most_bytes}});
  };
  {
    const auto first = queue({0, 2}, dataset, 200), second = queue({1, 2}, dataset, 200);
    EXPECT_EQ(images->kept_bytes(), 200);
    const auto no_room = queue({}, plain_numbers(10), 200);
    EXPECT_EQ(images->kept_bytes(), 200);
    EXPECT_EQ(no_room->next()->global_count, 10);
  }
  EXPECT_EQ(images->kept_bytes(), 0) << "freed with the last queue";
  const auto alone = queue({}, dataset, 199);
  EXPECT_EQ(images->kept_bytes(), 0);
}

TEST(DatasetQueue, CollateMakesWhatItLikesAndIsChecked) {
  const Collate rows = [](const at::Tensor& images, const at::Tensor& target) {
    return Collated{images.flatten(1).to(at::kFloat), target.to(at::kFloat).view({-1, 1})};
  };
  MiniBatchQueue queue(plain_numbers(12), {},
                       {.mini_batch_size = 12,
                        .shards = 3,
                        .output = {.format = "BC", .target_format = "BC", .collate = rows}});
  const auto batch = queue.next();
  for (const Shard& shard : batch->shards) {
    EXPECT_EQ(shard.input.sizes(), at::IntArrayRef({4, 2}));
    EXPECT_EQ(shard.target.sizes(), at::IntArrayRef({4, 1}));
  }
  const Collate loses = [](const at::Tensor& images, const at::Tensor& target) {
    return Collated{images.narrow(0, 0, 2), target};
  };
  MiniBatchQueue checked(
      plain_numbers(12), {},
      {.mini_batch_size = 12, .shards = 3, .output = {.format = "BCSS", .collate = loses}});
  try {
    checked.next();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("holds 2 samples, but the shard has 4\n  while filling mini-batch 1 of epoch 1"));
  }
}

TEST(DatasetQueue, HasDataUntilTheLastMiniBatchAndAnErrorIsData) {
  MiniBatchQueue queue(plain_numbers(10, 7), {},
                       {.mini_batch_size = 5, .order = {.shuffle = Shuffle::never}});
  EXPECT_TRUE(queue.has_data());
  EXPECT_TRUE(queue.next());
  EXPECT_TRUE(queue.has_data());
  EXPECT_THROW(queue.next(), Error);
  EXPECT_FALSE(queue.has_data());
  EXPECT_FALSE(queue.next());
}

TEST(DatasetQueue, RefusesWhatImagesCannotBe) {
  const auto message = [](const Dataset& dataset, const ShardOutput& output) -> std::string {
    try {
      MiniBatchQueue(dataset, {}, {.output = output});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message(plain_numbers(9), {.format = "SCB"}),
              HasSubstr("dimensions \"BCSS\" cannot be put in the order \"SCB\""));
  EXPECT_THAT(message(plain_numbers(9), {.target_format = "CB"}),
              HasSubstr("dimensions \"B\" cannot be put in the order \"CB\""));
  EXPECT_THAT(message(plain_numbers(9), {.type = at::kLong}), HasSubstr("cannot be of type Long"));
  EXPECT_THAT(message(Dataset(), {}), HasSubstr("at least one sample"));
}

TEST(Dataset, PartitionsCoverItAndAShuffleRepeats) {
  const auto labels = [](const Dataset& dataset) {
    std::vector<std::string> sources;
    for (int64_t i = 0; i < dataset.size(); ++i) sources.push_back(dataset.store().source(i));
    return sources;
  };
  std::vector<std::string> joined;
  for (int64_t part = 0; part < 3; ++part) {
    for (std::string& source : labels(plain_numbers(10).partition(3, part)))
      joined.push_back(std::move(source));
  }
  EXPECT_EQ(joined, labels(plain_numbers(10)));
  EXPECT_THROW(plain_numbers(10).partition(3, 3), Error);
  EXPECT_EQ(labels(plain_numbers(10).shuffle(5)), labels(plain_numbers(10).shuffle(5)));
  EXPECT_NE(labels(plain_numbers(10).shuffle(5)), labels(plain_numbers(10).shuffle(6)));
  EXPECT_THAT(labels(plain_numbers(10).shuffle(5)),
              testing::UnorderedElementsAreArray(labels(plain_numbers(10))));
}

TEST(ToInput, IsToTensorAndNormalize) {
  const at::Tensor images = at::arange(12, at::kByte).view({1, 3, 2, 2});
  const at::Tensor plain = to_input(images, {});
  EXPECT_EQ(plain.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(plain, images.to(at::kFloat) / 255));
  const at::Tensor normal =
      to_input(images, {.type = at::kDouble, .mean = {0.1, 0.2, 0.3}, .deviation = {0.5}});
  const at::Tensor mean = at::tensor({0.1, 0.2, 0.3}, at::kDouble).view({1, 3, 1, 1});
  EXPECT_TRUE(at::equal(normal, (images.to(at::kDouble) / 255 - mean) / 0.5));
  EXPECT_EQ(to_input(images, {.type = at::kBFloat16}).scalar_type(), at::kBFloat16);
  EXPECT_THROW(to_input(images, {.mean = {0.1, 0.2}}), Error);
}

TEST(DatasetQueue, GivesSequencesWithTheirLengthsAndTargets) {
  std::vector<Sequence> sequences;
  for (const int64_t steps : {2, 1, 5, 3})
    sequences.push_back({.values = std::vector<float>(static_cast<size_t>(steps), 1), .label = steps % 2});
  const Dataset dataset = make_sequences(1, {"even", "odd"}, sequences);
  EXPECT_EQ(format_of(dataset),
            (ImageFormat{.channels = 1, .height = 1, .width = 5, .kind = SampleKind::sequence}));
  QueueOptions options{.mini_batch_size = 4, .shards = 2, .order = {.shuffle = Shuffle::never}};
  const Shard plain = MiniBatchQueue(dataset, {}, options).next()->shards.front();
  EXPECT_TRUE(
      plain.input.equal(at::tensor({1.f, 1.f, 0.f, 0.f, 0.f, 1.f, 0.f, 0.f, 0.f, 0.f}).view({2, 1, 5})));
  EXPECT_TRUE(plain.lengths.equal(at::tensor({2, 1}, at::kLong)));
  EXPECT_TRUE(plain.target.equal(at::tensor({0, 1}, at::kLong)));
  EXPECT_FALSE(plain.padded_left);

  options.output = {.format = "CBT", .target_format = "CB", .one_hot = true, .mean = {1}};
  options.images = format_of(dataset);
  options.images->padding = PaddingSide::left;
  const Shard labelled = MiniBatchQueue(dataset, {}, options).next()->shards.back();
  EXPECT_TRUE(
      labelled.input.equal(at::tensor({0.f, 0.f, 0.f, 0.f, 0.f, -1.f, -1.f, 0.f, 0.f, 0.f}).view({1, 2, 5})));
  EXPECT_TRUE(labelled.target.equal(at::tensor({0.f, 0.f, 1.f, 1.f}).view({2, 2})));
  EXPECT_TRUE(labelled.padded_left);
  options.output = {.format = "BCSS"};
  EXPECT_THROW(MiniBatchQueue(dataset, {}, options), Error);
}

TEST(DatasetQueue, TargetsOfTimeStepsHaveATimeDimension) {
  const Dataset dataset = make_sequences(
      1, {"a", "b"},
      {{.values = {1, 2, 3}, .time_step_labels = {0, 1, -1}}, {.values = {4}, .time_step_labels = {1}}});
  QueueOptions options{.mini_batch_size = 2,
                       .shards = 1,
                       .order = {.shuffle = Shuffle::never},
                       .output = {.target_format = "TB"}};
  const auto first = [&] { return MiniBatchQueue(dataset, {}, options).next().value(); };
  const Batch numbers = first();
  EXPECT_EQ(numbers.target_count, 3);
  EXPECT_TRUE(numbers.shards[0].target.equal(at::tensor({0, 1, 1, -1, -1, -1}, at::kLong).view({3, 2})));
  options.output = {.one_hot = true};
  EXPECT_TRUE(
      first().shards[0].target.equal(at::tensor({1.f, 0.f, 0.f, 0.f, 1.f, 0.f, 0.f, 0.f, 0.f, 1.f, 0.f, 0.f})
                                         .view({2, 2, 3})));  // [b,classes,T]
  options.output = {.collate = [](const at::Tensor& values, const at::Tensor&) {
    return Collated{values, values};
  }};
  EXPECT_EQ(first().target_count, 2) << "a mean over the samples, where the targets are not the labels";
  options.output = {.target_format = "CB"};
  EXPECT_THROW(first(), Error);
}

TEST(DatasetQueue, AChosenDeviceWins) {
  MiniBatchQueue queue(
      plain_numbers(8), {},
      {.mini_batch_size = 8, .output = {.device = OutputDevice::gpu, .chosen_device = at::kCPU}});
  EXPECT_TRUE(queue.next()->shards.front().input.is_cpu());
}

}  // namespace
}  // namespace lockstep::data
