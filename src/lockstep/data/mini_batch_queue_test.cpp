#include "lockstep/data/mini_batch_queue.h"

#include <set>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/data/sequences.h"
#include "lockstep/data/test_queues.h"

namespace lockstep::data {
namespace {

using test::cutting_options;
using test::grids;
using test::numbers;
using testing::HasSubstr;

struct Given {
  Cursor cursor;
  int64_t shard = 0;
  std::vector<uint8_t> pixels;
  std::vector<int64_t> target;
  friend bool operator==(const Given&, const Given&) = default;
};

// All shards of all mini-batches of a group of workers, in order of mini-batch and shard.
std::vector<Given> all_given(int64_t workers, const std::shared_ptr<const ImageSet>& images,
                             const QueueOptions& options) {
  std::vector<std::unique_ptr<MiniBatchQueue>> queues;
  for (int64_t rank = 0; rank < workers; ++rank)
    queues.push_back(std::make_unique<MiniBatchQueue>(images, Share{rank, workers}, options));
  std::vector<Given> all;
  while (true) {
    bool any = false;
    for (auto& queue : queues) {
      const std::optional<Batch> batch = queue->next();
      EXPECT_TRUE(&queue == &queues.front() || any == batch.has_value());
      any = batch.has_value();
      if (!batch) continue;
      for (const Shard& shard : batch->shards) {
        EXPECT_EQ(shard.count, shard.images.size(0));
        const uint8_t* pixels = shard.images.data_ptr<uint8_t>();
        const int64_t* target = shard.target.data_ptr<int64_t>();
        all.push_back({batch->cursor,
                       shard.index,
                       {pixels, pixels + shard.images.numel()},
                       {target, target + shard.count}});
      }
    }
    if (!any) return all;
  }
}

QueueOptions options_of(int64_t threads) {
  return {.mini_batch_size = 40,
          .shards = 8,
          .order = {.seed = 3},
          .augment = Augment::parse("flip"),
          .epochs = 3,
          .read_ahead = 3,
          .threads = threads};
}

TEST(MiniBatchQueue, AnyNumberOfWorkersAndThreadsGivesTheSameShards) {
  const auto expected = all_given(1, numbers(101), options_of(1));
  EXPECT_EQ(expected.size(), 3u * (8 + 8 + 8));
  EXPECT_EQ(expected.back().cursor, (Cursor{2, 2}));
  for (const int64_t workers : {1, 2, 3, 8, 11}) {
    for (const int64_t threads : {1, 3})
      EXPECT_EQ(all_given(workers, numbers(101), options_of(threads)), expected)
          << workers << " workers, " << threads << " threads";
  }
  EXPECT_EQ(all_given(2, numbers(101, -1, false, 0), options_of(2)), expected);
}

TEST(MiniBatchQueue, ARankHasTheSameShardsForAnyNumberOfItsWorkers) {
  constexpr int64_t kRanks = 3;  // 8 shards: 3, 3 and 2
  for (const int64_t workers : {1, 2, 5}) {
    QueueOptions options = options_of(1);
    options.ranks = kRanks;
    for (int64_t rank = 0; rank < kRanks; ++rank) {
      std::vector<int64_t> shards;
      for (int64_t worker = 0; worker < workers; ++worker) {
        MiniBatchQueue queue(numbers(101), Share{rank * workers + worker, kRanks * workers}, options);
        const std::optional<Batch> batch = queue.next();
        for (const Shard& shard : batch->shards) shards.push_back(shard.index);
      }
      std::vector<int64_t> expected;
      for (int64_t shard = rank * 3; shard < std::min<int64_t>(8, rank * 3 + 3); ++shard)
        expected.push_back(shard);
      EXPECT_EQ(shards, expected) << workers << " workers of rank " << rank;
    }
  }
}

TEST(MiniBatchQueue, ShardsThatFollowEachOtherCanBeJoined) {
  MiniBatchQueue queue(numbers(101), Share{1, 2}, options_of(1));
  const std::vector<Shard> shards = queue.next()->shards;
  ASSERT_EQ(shards.size(), 4U);
  const Shard whole = joined(std::span(shards).subspan(1, 3));
  EXPECT_EQ(whole.index, 5);
  EXPECT_EQ(whole.count, 15);
  EXPECT_TRUE(at::equal(whole.images, at::cat({shards[1].images, shards[2].images, shards[3].images})));
  EXPECT_TRUE(at::equal(whole.target, at::cat({shards[1].target, shards[2].target, shards[3].target})));
  EXPECT_THROW(joined(std::vector<Shard>{shards[0], shards[2]}), Error);
  EXPECT_THROW(joined(std::vector<Shard>{shards[1], shards[0]}), Error);
}

// An image's first pixel is its number, so a mixture shows the share, and the target that is mixed in the
// other number's parity.
TEST(MiniBatchQueue, MixupGivesTheOtherTargetAndItsShare) {
  QueueOptions options = options_of(2);
  options.augment = Augment::parse("mixup");
  EXPECT_EQ(all_given(1, numbers(101), options), all_given(3, numbers(101), options));
  MiniBatchQueue queue(numbers(101), Share{}, options);
  int64_t mixed = 0;
  while (const auto batch = queue.next()) {
    for (const Shard& shard : batch->shards) {
      ASSERT_EQ(shard.mixed_target.size(0), shard.count);
      const at::Tensor share = shard.target_share;
      EXPECT_TRUE(share.ge(0).logical_and(share.le(1)).all().item<bool>());
      // The second pixel is 255 minus the first, also of a mixture, but for rounding.
      EXPECT_LE((shard.images.to(at::kInt).sum({1, 2, 3}) - 255).abs().max().item<int>(), 1);
      mixed += share.ne(1).sum().item<int64_t>();
    }
  }
  EXPECT_GT(mixed, 250);
}

TEST(MiniBatchQueue, CutsTheSamePartsForAnyNumberOfWorkers) {
  for (const char* augment : {"none", "random-crop", "random-resized-crop=0.3,flip", "random-crop,mixup"}) {
    QueueOptions options = cutting_options(augment);
    const auto expected = all_given(1, grids(), options);
    for (const Given& given : expected) EXPECT_EQ(given.pixels.size(), 12 * given.target.size());
    options.threads = 2;
    EXPECT_EQ(all_given(2, grids(), options), expected) << augment;
    options.order.seed = 4;
    EXPECT_EQ(all_given(1, grids(), options) == expected, augment == std::string("none"));
  }
  MiniBatchQueue queue(grids(), Share{}, cutting_options("random-crop"));
  const Batch batch = queue.next().value();
  EXPECT_EQ(batch.shards.front().images.sizes().slice(1), at::IntArrayRef({1, 3, 4}));
}

TEST(MiniBatchQueue, CutsTheCentreOrWhatTheAugmentationChooses) {
  const auto corners = [](const char* augment) {
    std::set<int> found;
    for (const Given& given : all_given(1, grids(), cutting_options(augment))) {
      for (size_t i = 0; i < given.pixels.size(); ++i) {
        const uint8_t corner = given.pixels[i / 12 * 12];
        EXPECT_EQ(given.pixels[i], corner + i % 12 / 4 * 6 + i % 4);
        found.insert(corner % 24);
      }
    }
    return found;
  };
  EXPECT_EQ(corners("none"), (std::set<int>{1}));
  EXPECT_EQ(corners("random-crop"), (std::set<int>{0, 1, 2, 6, 7, 8}));
}

TEST(MiniBatchQueue, RefusesPartsThatThereAreNot) {
  const auto refusal = [](const char* augment, std::vector<int64_t> cut_out) -> std::string {
    QueueOptions options = cutting_options(augment);
    options.cut_out = std::move(cut_out);
    try {
      MiniBatchQueue(grids(), Share{}, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal("none", {5, 4}), HasSubstr("cannot cut an image of 5x4 out of one of 4x6"));
  EXPECT_THAT(refusal("none", {3}), HasSubstr("needs a cut_out of at least 1x1"));
  EXPECT_THAT(refusal("none", {0, 4}), HasSubstr("needs a cut_out of at least 1x1"));
  EXPECT_THAT(refusal("random-crop", {}), HasSubstr("the size of the part to cut out"));
}

TEST(MiniBatchQueue, ShardsOfOneSize) {
  QueueOptions options = options_of(2);
  options.shard_size = 10;
  const auto sizes_of = [&](int64_t count) {
    options.epochs = 1;
    std::vector<size_t> sizes;
    for (const Given& given : all_given(3, numbers(count), options)) sizes.push_back(given.target.size());
    return sizes;
  };
  EXPECT_EQ(sizes_of(57), (std::vector<size_t>{10, 10, 10, 10, 10, 7}));
  EXPECT_EQ(sizes_of(61), (std::vector<size_t>{10, 10, 10, 10, 10, 11}));  // none of a single sample,
  EXPECT_EQ(sizes_of(41), (std::vector<size_t>{10, 10, 10, 10, 1}));  // unless the mini-batch has no more
}

TEST(MiniBatchQueue, AShardOfOneSizeHasTheSameWorkerInEveryMiniBatch) {
  QueueOptions options = options_of(1);
  options.shard_size = 10;
  options.epochs = 1;
  MiniBatchQueue first(numbers(55), {0, 2}, options), second(numbers(55), {1, 2}, options);
  const auto indices = [](MiniBatchQueue& queue) {
    std::vector<int64_t> found;
    const std::optional<Batch> batch = queue.next();
    for (const Shard& shard : batch->shards) found.push_back(shard.index);
    return found;
  };
  EXPECT_EQ(indices(first), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(indices(second), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(indices(first), (std::vector<int64_t>{0, 1}));  // of 15 samples
  EXPECT_EQ(indices(second), (std::vector<int64_t>{}));
}

TEST(MiniBatchQueue, EveryEpochHasEverySampleWithItsLabel) {
  QueueOptions options = options_of(2);
  options.augment = {};
  std::vector<int> seen(101);
  for (const Given& given : all_given(2, numbers(101), options)) {
    for (size_t i = 0; i < given.target.size(); ++i) {
      const uint8_t index = given.pixels[2 * i];
      EXPECT_EQ(given.pixels[2 * i + 1], static_cast<uint8_t>(~index));
      EXPECT_EQ(given.target[i], index % 2);
      ++seen[index];
    }
  }
  EXPECT_THAT(seen, testing::Each(3));
}

TEST(MiniBatchQueue, GoesOnFromAnyPlace) {
  const auto whole = all_given(1, numbers(101), options_of(1));
  QueueOptions options = options_of(2);
  options.start = {1, 2};
  const auto rest = all_given(1, numbers(101), options);
  ASSERT_EQ(rest.size(), 32u);
  EXPECT_TRUE(std::equal(rest.begin(), rest.end(), whole.end() - 32));
  options.start = {0, 3};  // one past an epoch's last is the next epoch's first
  EXPECT_EQ(all_given(1, numbers(101), options).front().cursor, (Cursor{1, 0}));
  options.start = {3, 0};
  EXPECT_TRUE(all_given(1, numbers(101), options).empty());
}

TEST(MiniBatchQueue, AWorkerWithoutShardsGetsEveryBatch) {
  QueueOptions options = options_of(1);
  options.shards = 2;
  options.epochs = 1;
  MiniBatchQueue queue(numbers(101), {2, 3}, options);
  for (int64_t step = 0; step < 3; ++step) {
    const auto batch = queue.next();
    ASSERT_TRUE(batch);
    EXPECT_EQ(batch->cursor, (Cursor{0, step}));
    EXPECT_EQ(batch->global_count, step < 2 ? 40 : 21);
    EXPECT_EQ(batch->shard_count, 2);
    EXPECT_TRUE(batch->shards.empty());
  }
  EXPECT_FALSE(queue.next());
}

TEST(MiniBatchQueue, AnErrorComesInItsTurnAndOnlyToItsWorker) {
  QueueOptions options = options_of(2);
  options.order.shuffle = Shuffle::never;
  options.epochs = 1;
  MiniBatchQueue mine(numbers(101, 45), {0, 2}, options), other(numbers(101, 45), {1, 2}, options);
  EXPECT_EQ(mine.next()->cursor, (Cursor{0, 0}));
  try {
    mine.next();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot decode \"#45\" (sample 46 of 101): it is damaged\n  while "
                                        "filling mini-batch 2"));
  }
  EXPECT_EQ(mine.next()->cursor, (Cursor{0, 2}));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(other.next());
}

TEST(MiniBatchQueue, StopsAtOnce) {
  const auto begin = std::chrono::steady_clock::now();
  {
    QueueOptions options = options_of(2);
    options.mini_batch_size = 5000;
    MiniBatchQueue queue(numbers(5000, -1, true), {0, 1}, options);
    std::stop_source stop;
    const std::jthread stopper([&] { stop.request_stop(); });
    EXPECT_FALSE(queue.next(stop.get_token()));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
}

TEST(MiniBatchQueue, RefusesEmptyNumbers) {
  QueueOptions options;
  options.threads = 0;
  EXPECT_THROW(MiniBatchQueue(numbers(3), {}, options), Error);
  options.threads = 1;
  EXPECT_FALSE(MiniBatchQueue(std::make_shared<ImageSet>(Dataset(), ImageFormat{}, 0), {}, options).next());
}

// Sequences of 1 to 5 steps; two workers with a shard of two each. The longest of the mini-batch decides how
// long all are.
TEST(MiniBatchQueue, PadsSequencesToTheLongestOfTheMiniBatch) {
  std::vector<Sequence> sequences;
  for (const int64_t steps : {2, 1, 5, 3})
    sequences.push_back({.values = std::vector<float>(static_cast<size_t>(steps), static_cast<float>(steps)),
                         .label = steps % 2});
  const auto set = [&](PaddingSide padding) {
    return std::make_shared<ImageSet>(
        make_sequences(1, {"even", "odd"}, sequences),
        ImageFormat{.channels = 1, .height = 1, .width = 5, .kind = SampleKind::sequence, .padding = padding},
        0);
  };
  QueueOptions options{.mini_batch_size = 4, .shards = 2, .order = {.shuffle = Shuffle::never}};
  MiniBatchQueue first(set(PaddingSide::right), {0, 2}, options),
      second(set(PaddingSide::left), {1, 2}, options);
  const Batch right = first.next().value(), left = second.next().value();
  EXPECT_EQ(right.target_count, 4);
  EXPECT_TRUE(right.shards[0].images.equal(
      at::tensor({2.f, 2.f, 0.f, 0.f, 0.f, 1.f, 0.f, 0.f, 0.f, 0.f}).view({2, 1, 5})));
  EXPECT_TRUE(right.shards[0].lengths.equal(at::tensor({2, 1}, at::kLong)));
  EXPECT_TRUE(left.shards[0].images.equal(
      at::tensor({5.f, 5.f, 5.f, 5.f, 5.f, 0.f, 0.f, 3.f, 3.f, 3.f}).view({2, 1, 5})));
  EXPECT_TRUE(left.shards[0].target.equal(at::tensor({1, 1}, at::kLong)));
  options.least_time_steps = 7;
  MiniBatchQueue longer(set(PaddingSide::right), {0, 2}, options);
  EXPECT_EQ(longer.next()->shards[0].images.size(2), 7);
  options.augment = Augment::parse("flip");
  EXPECT_THROW(MiniBatchQueue(set(PaddingSide::right), {0, 1}, options), Error);
}

TEST(MiniBatchQueue, GivesAClassForEachTimeStep) {
  const Dataset streams = make_sequences(
      1, {"a", "b"},
      {{.values = {1, 2, 3}, .time_step_labels = {0, 1, -1}}, {.values = {4}, .time_step_labels = {1}}});
  const auto set = std::make_shared<ImageSet>(
      stream_pieces(streams, {.time_steps = 2, .slots = 2}),
      ImageFormat{.channels = 1, .height = 1, .width = 2, .kind = SampleKind::sequence}, 0);
  MiniBatchQueue queue(set, {0, 1},
                       {.mini_batch_size = 2, .shards = 1, .order = {.shuffle = Shuffle::never}});
  EXPECT_THROW(MiniBatchQueue(set, {}, {.mini_batch_size = 1, .order = {.shuffle = Shuffle::never}}), Error)
      << "pieces would change their slots";
  const Batch first = queue.next().value(), second = queue.next().value();
  EXPECT_EQ(first.target_count, 3);
  EXPECT_TRUE(first.shards[0].target.equal(at::tensor({0, 1, 1, -1}, at::kLong).view({2, 2})));
  EXPECT_TRUE(first.shards[0].continues.equal(at::zeros({2}, at::kBool)));
  EXPECT_EQ(second.target_count, 0);
  EXPECT_TRUE(second.shards[0].continues.equal(at::tensor({1, 0}, at::kLong).to(at::kBool)));
  EXPECT_TRUE(second.shards[0].lengths.equal(at::tensor({1, 0}, at::kLong)));
}

}  // namespace
}  // namespace lockstep::data
