#include "lockstep/data/mini_batch_queue.h"

#include <set>
#include <thread>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/data/sequences.h"

namespace lockstep::data {
namespace {

using testing::HasSubstr;

// Pictures of 1x2: the index and its complement. `bad` cannot be read; `slow` pictures take a millisecond.
class Numbers : public Datastore {
 public:
  explicit Numbers(int64_t count, int64_t bad = -1, bool slow = false) : count_(count), bad_(bad), slow_(slow) {}
  int64_t size() const override { return count_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t index) const override { return index % 2; }
  std::string source(int64_t index) const override { return "#" + std::to_string(index); }
  ImageSize image_size(int64_t) const override { return {1, 1, 2}; }
  void read_to(int64_t index, const Placement& placement) const override {
    if (slow_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (index == bad_) throw BadPicture(source(index), "it is torn");
    const auto picture = placement({1, 1, 2});
    picture[0] = static_cast<uint8_t>(index);
    picture[1] = static_cast<uint8_t>(~index);
  }
  uint64_t listing_hash() const override { return 1; }

 private:
  int64_t count_, bad_;
  bool slow_;
  std::vector<std::string> classes_{"even", "odd"};
};

std::shared_ptr<const PictureSet> numbers(int64_t count, int64_t bad = -1, bool slow = false, int64_t most_bytes = 1 << 20) {
  return std::make_shared<PictureSet>(Dataset(std::make_shared<Numbers>(count, bad, slow)), PictureFormat{1, 1, 2}, most_bytes);
}

struct Given {
  Cursor cursor;
  int64_t shard = 0;
  std::vector<uint8_t> pixels;
  std::vector<int64_t> target;
  friend bool operator==(const Given&, const Given&) = default;
};

// All shards of all mini-batches of a group of workers, in order of mini-batch and shard.
std::vector<Given> all_given(int64_t workers, const std::shared_ptr<const PictureSet>& pictures, const QueueOptions& options) {
  std::vector<std::unique_ptr<MiniBatchQueue>> queues;
  for (int64_t rank = 0; rank < workers; ++rank) queues.push_back(std::make_unique<MiniBatchQueue>(pictures, Share{rank, workers}, options));
  std::vector<Given> all;
  while (true) {
    bool any = false;
    for (auto& queue : queues) {
      const std::optional<Batch> batch = queue->next();
      EXPECT_TRUE(&queue == &queues.front() || any == batch.has_value());
      any = batch.has_value();
      if (!batch) continue;
      for (const Shard& shard : batch->shards) {
        EXPECT_EQ(shard.count, shard.pictures.size(0));
        const uint8_t* pixels = shard.pictures.data_ptr<uint8_t>();
        const int64_t* target = shard.target.data_ptr<int64_t>();
        all.push_back({batch->cursor, shard.index, {pixels, pixels + shard.pictures.numel()}, {target, target + shard.count}});
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
      EXPECT_EQ(all_given(workers, numbers(101), options_of(threads)), expected) << workers << " workers, " << threads << " threads";
  }
  EXPECT_EQ(all_given(2, numbers(101, -1, false, 0), options_of(2)), expected);
}

TEST(MiniBatchQueue, ShardsThatFollowEachOtherCanBeJoined) {
  MiniBatchQueue queue(numbers(101), Share{1, 2}, options_of(1));
  const std::vector<Shard> shards = queue.next()->shards;
  ASSERT_EQ(shards.size(), 4U);
  const Shard whole = joined(std::span(shards).subspan(1, 3));
  EXPECT_EQ(whole.index, 5);
  EXPECT_EQ(whole.count, 15);
  EXPECT_TRUE(at::equal(whole.pictures, at::cat({shards[1].pictures, shards[2].pictures, shards[3].pictures})));
  EXPECT_TRUE(at::equal(whole.target, at::cat({shards[1].target, shards[2].target, shards[3].target})));
  EXPECT_THROW(joined(std::vector<Shard>{shards[0], shards[2]}), Error);
  EXPECT_THROW(joined(std::vector<Shard>{shards[1], shards[0]}), Error);
}

// A picture's first pixel is its number, so a mixture shows the share, and the target that is mixed in the other number's parity.
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
      EXPECT_LE((shard.pictures.to(at::kInt).sum({1, 2, 3}) - 255).abs().max().item<int>(), 1);
      mixed += share.ne(1).sum().item<int64_t>();
    }
  }
  EXPECT_GT(mixed, 250);
}

// Pictures of 4x6 whose levels rise by one from pixel to pixel, from 24 times the index on.
class Grids : public Datastore {
 public:
  int64_t size() const override { return 10; }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t index) const override { return index % 2; }
  std::string source(int64_t index) const override { return "#" + std::to_string(index); }
  ImageSize image_size(int64_t) const override { return {1, 4, 6}; }
  void read_to(int64_t index, const Placement& placement) const override {
    auto level = static_cast<uint8_t>(24 * index);
    for (uint8_t& pixel : placement({1, 4, 6})) pixel = level++;
  }
  uint64_t listing_hash() const override { return 1; }

 private:
  std::vector<std::string> classes_{"even", "odd"};
};

std::shared_ptr<const PictureSet> grids() { return std::make_shared<PictureSet>(Dataset(std::make_shared<Grids>()), PictureFormat{1, 4, 6}, 1 << 20); }

QueueOptions cutting_options(const char* augment) {
  return {.mini_batch_size = 7, .shards = 4, .order = {.seed = 3, .shuffle = Shuffle::never}, .augment = Augment::parse(augment), .cut_out = {3, 4}, .epochs = 20};
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
  EXPECT_EQ(batch.shards.front().pictures.sizes().slice(1), at::IntArrayRef({1, 3, 4}));
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
  EXPECT_THAT(refusal("none", {5, 4}), HasSubstr("a picture of 5x4 cannot be cut out of one of 4x6"));
  EXPECT_THAT(refusal("none", {3}), HasSubstr("needs a height and a width"));
  EXPECT_THAT(refusal("none", {0, 4}), HasSubstr("needs a height and a width"));
  EXPECT_THAT(refusal("random-crop", {}), HasSubstr("no size to cut out"));
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
  EXPECT_EQ(sizes_of(41), (std::vector<size_t>{10, 10, 10, 10, 1}));       // unless the mini-batch has no more
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
    EXPECT_THAT(error.what(), HasSubstr("cannot decode \"#45\" (sample 46 of 101): it is torn\n  while filling mini-batch 2 of epoch 1"));
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
  EXPECT_FALSE(MiniBatchQueue(std::make_shared<PictureSet>(Dataset(), PictureFormat{}, 0), {}, options).next());
}

Dataset plain_numbers(int64_t count, int64_t bad = -1) { return Dataset(std::make_shared<Numbers>(count, bad)); }

TEST(DatasetQueue, IsWalkedOverAndGivesInput) {
  std::vector<int64_t> iterations, epochs;
  int64_t samples = 0;
  for (const auto& batch : MiniBatchQueue(plain_numbers(100), {}, {.mini_batch_size = 40, .shards = 4, .epochs = 2, .output = {.mean = {0.5}}})) {
    iterations.push_back(batch.iteration);
    epochs.push_back(batch.cursor.epoch);
    EXPECT_EQ(batch.ends_epoch, batch.cursor.step == 2);
    for (const Shard& shard : batch.shards) {
      EXPECT_TRUE(at::equal(shard.input, to_input(shard.pictures, {.mean = {0.5}})));
      EXPECT_TRUE(at::equal(shard.target, shard.pictures.select(3, 0).flatten().to(at::kLong) % 2));
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
  MiniBatchQueue queue(plain_numbers(8), {}, {.mini_batch_size = 8, .shards = 1, .output = {.format = "SSCB", .target_format = "CB", .one_hot = true, .type = at::kDouble, .device = OutputDevice::cpu}});
  const auto batch = queue.next();
  const Shard& shard = batch->shards.front();
  EXPECT_EQ(shard.input.sizes(), at::IntArrayRef({1, 2, 1, 8}));
  EXPECT_EQ(shard.input.scalar_type(), at::kDouble);
  EXPECT_EQ(shard.target.sizes(), at::IntArrayRef({2, 8}));
  EXPECT_TRUE(at::equal(shard.target.argmax(0), shard.pictures.select(3, 0).flatten().to(at::kLong) % 2));
  EXPECT_TRUE(at::equal(shard.target.sum(0), at::ones({8}, at::kDouble)));
}

TEST(DatasetQueue, PartialMiniBatchesAreReturnedOrDiscarded) {
  const auto counts = [](PartialBatch partial) {
    std::vector<int64_t> counts;
    for (const auto& batch : MiniBatchQueue(plain_numbers(100), {1, 2}, {.mini_batch_size = 40, .epochs = 2, .partial = partial})) counts.push_back(batch.global_count);
    return counts;
  };
  EXPECT_EQ(counts(PartialBatch::return_), (std::vector<int64_t>{40, 40, 20, 40, 40, 20}));
  EXPECT_EQ(counts(PartialBatch::discard), (std::vector<int64_t>{40, 40, 40, 40}));
  EXPECT_THROW(MiniBatchQueue(plain_numbers(30), {}, {.mini_batch_size = 40, .partial = PartialBatch::discard}), Error);
}

TEST(DatasetQueue, CollateMakesWhatItLikesAndIsChecked) {
  const Collate rows = [](const at::Tensor& pictures, const at::Tensor& target) { return Collated{pictures.flatten(1).to(at::kFloat), target.to(at::kFloat).view({-1, 1})}; };
  MiniBatchQueue queue(plain_numbers(12), {}, {.mini_batch_size = 12, .shards = 3, .output = {.format = "BC", .target_format = "BC", .collate = rows}});
  const auto batch = queue.next();
  for (const Shard& shard : batch->shards) {
    EXPECT_EQ(shard.input.sizes(), at::IntArrayRef({4, 2}));
    EXPECT_EQ(shard.target.sizes(), at::IntArrayRef({4, 1}));
  }
  const Collate loses = [](const at::Tensor& pictures, const at::Tensor& target) { return Collated{pictures.narrow(0, 0, 2), target}; };
  MiniBatchQueue checked(plain_numbers(12), {}, {.mini_batch_size = 12, .shards = 3, .output = {.format = "BCSS", .collate = loses}});
  try {
    checked.next();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("holds 2 samples, and the shard has 4\n  while filling mini-batch 1 of epoch 1"));
  }
}

TEST(DatasetQueue, HasDataUntilTheLastMiniBatchAndAnErrorIsData) {
  MiniBatchQueue queue(plain_numbers(10, 7), {}, {.mini_batch_size = 5, .order = {.shuffle = Shuffle::never}});
  EXPECT_TRUE(queue.has_data());
  EXPECT_TRUE(queue.next());
  EXPECT_TRUE(queue.has_data());
  EXPECT_THROW(queue.next(), Error);
  EXPECT_FALSE(queue.has_data());
  EXPECT_FALSE(queue.next());
}

TEST(DatasetQueue, RefusesWhatPicturesCannotBe) {
  const auto message = [](const Dataset& dataset, const ShardOutput& output) -> std::string {
    try {
      MiniBatchQueue(dataset, {}, {.output = output});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message(plain_numbers(9), {.format = "SCB"}), HasSubstr("dimensions \"BCSS\" cannot be put in the order \"SCB\""));
  EXPECT_THAT(message(plain_numbers(9), {.target_format = "CB"}), HasSubstr("dimensions \"B\" cannot be put in the order \"CB\""));
  EXPECT_THAT(message(plain_numbers(9), {.type = at::kLong}), HasSubstr("cannot be of type Long"));
  EXPECT_THAT(message(Dataset(), {}), HasSubstr("without samples"));
}

TEST(Dataset, PartitionsCoverItAndAShuffleRepeats) {
  const auto labels = [](const Dataset& dataset) {
    std::vector<std::string> sources;
    for (int64_t i = 0; i < dataset.size(); ++i) sources.push_back(dataset.store().source(i));
    return sources;
  };
  std::vector<std::string> joined;
  for (int64_t part = 0; part < 3; ++part) {
    for (std::string& source : labels(plain_numbers(10).partition(3, part))) joined.push_back(std::move(source));
  }
  EXPECT_EQ(joined, labels(plain_numbers(10)));
  EXPECT_THROW(plain_numbers(10).partition(3, 3), Error);
  EXPECT_EQ(labels(plain_numbers(10).shuffle(5)), labels(plain_numbers(10).shuffle(5)));
  EXPECT_NE(labels(plain_numbers(10).shuffle(5)), labels(plain_numbers(10).shuffle(6)));
  EXPECT_THAT(labels(plain_numbers(10).shuffle(5)), testing::UnorderedElementsAreArray(labels(plain_numbers(10))));
}

TEST(ToInput, IsToTensorAndNormalize) {
  const at::Tensor pictures = at::arange(12, at::kByte).view({1, 3, 2, 2});
  const at::Tensor plain = to_input(pictures, {});
  EXPECT_EQ(plain.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(plain, pictures.to(at::kFloat) / 255));
  const at::Tensor normal = to_input(pictures, {.type = at::kDouble, .mean = {0.1, 0.2, 0.3}, .deviation = {0.5}});
  const at::Tensor mean = at::tensor({0.1, 0.2, 0.3}, at::kDouble).view({1, 3, 1, 1});
  EXPECT_TRUE(at::equal(normal, (pictures.to(at::kDouble) / 255 - mean) / 0.5));
  EXPECT_EQ(to_input(pictures, {.type = at::kBFloat16}).scalar_type(), at::kBFloat16);
  EXPECT_THROW(to_input(pictures, {.mean = {0.1, 0.2}}), Error);
}

// Sequences of 1 to 5 steps; two workers with a shard of two each. The longest of the mini-batch decides how long all are.
TEST(MiniBatchQueue, PadsSequencesToTheLongestOfTheMiniBatch) {
  std::vector<Sequence> sequences;
  for (const int64_t steps : {2, 1, 5, 3}) sequences.push_back({.values = std::vector<float>(static_cast<size_t>(steps), static_cast<float>(steps)), .label = steps % 2});
  const auto set = [&](PaddingSide padding) {
    return std::make_shared<PictureSet>(make_sequences(1, {"even", "odd"}, sequences), PictureFormat{.channels = 1, .height = 1, .width = 5, .kind = SampleKind::sequence, .padding = padding}, 0);
  };
  QueueOptions options{.mini_batch_size = 4, .shards = 2, .order = {.shuffle = Shuffle::never}};
  MiniBatchQueue first(set(PaddingSide::right), {0, 2}, options), second(set(PaddingSide::left), {1, 2}, options);
  const Batch right = first.next().value(), left = second.next().value();
  EXPECT_EQ(right.target_count, 4);
  EXPECT_TRUE(right.shards[0].pictures.equal(at::tensor({2.f, 2.f, 0.f, 0.f, 0.f, 1.f, 0.f, 0.f, 0.f, 0.f}).view({2, 1, 5})));
  EXPECT_TRUE(right.shards[0].lengths.equal(at::tensor({2, 1}, at::kLong)));
  EXPECT_TRUE(left.shards[0].pictures.equal(at::tensor({5.f, 5.f, 5.f, 5.f, 5.f, 0.f, 0.f, 3.f, 3.f, 3.f}).view({2, 1, 5})));
  EXPECT_TRUE(left.shards[0].target.equal(at::tensor({1, 1}, at::kLong)));
  options.least_steps = 7;
  MiniBatchQueue longer(set(PaddingSide::right), {0, 2}, options);
  EXPECT_EQ(longer.next()->shards[0].pictures.size(2), 7);
  options.augment = Augment::parse("flip");
  EXPECT_THROW(MiniBatchQueue(set(PaddingSide::right), {0, 1}, options), Error);
}

TEST(MiniBatchQueue, GivesAClassForEachTimeStep) {
  const Dataset streams = make_sequences(1, {"a", "b"}, {{.values = {1, 2, 3}, .step_labels = {0, 1, -1}}, {.values = {4}, .step_labels = {1}}});
  const auto set = std::make_shared<PictureSet>(stream_pieces(streams, {.steps = 2, .slots = 2}), PictureFormat{.channels = 1, .height = 1, .width = 2, .kind = SampleKind::sequence}, 0);
  MiniBatchQueue queue(set, {0, 1}, {.mini_batch_size = 2, .shards = 1, .order = {.shuffle = Shuffle::never}});
  EXPECT_THROW(MiniBatchQueue(set, {}, {.mini_batch_size = 1, .order = {.shuffle = Shuffle::never}}), Error) << "pieces would change their slots";
  const Batch first = queue.next().value(), second = queue.next().value();
  EXPECT_EQ(first.target_count, 3);
  EXPECT_TRUE(first.shards[0].target.equal(at::tensor({0, 1, 1, -1}, at::kLong).view({2, 2})));
  EXPECT_TRUE(first.shards[0].continues.equal(at::zeros({2}, at::kBool)));
  EXPECT_EQ(second.target_count, 0);
  EXPECT_TRUE(second.shards[0].continues.equal(at::tensor({1, 0}, at::kLong).to(at::kBool)));
  EXPECT_TRUE(second.shards[0].lengths.equal(at::tensor({1, 0}, at::kLong)));
}

TEST(DatasetQueue, GivesSequencesWithTheirLengthsAndTargets) {
  std::vector<Sequence> sequences;
  for (const int64_t steps : {2, 1, 5, 3}) sequences.push_back({.values = std::vector<float>(static_cast<size_t>(steps), 1), .label = steps % 2});
  const Dataset dataset = make_sequences(1, {"even", "odd"}, sequences);
  EXPECT_EQ(format_of(dataset), (PictureFormat{.channels = 1, .height = 1, .width = 5, .kind = SampleKind::sequence}));
  QueueOptions options{.mini_batch_size = 4, .shards = 2, .order = {.shuffle = Shuffle::never}};
  const Shard plain = MiniBatchQueue(dataset, {}, options).next()->shards.front();
  EXPECT_TRUE(plain.input.equal(at::tensor({1.f, 1.f, 0.f, 0.f, 0.f, 1.f, 0.f, 0.f, 0.f, 0.f}).view({2, 1, 5})));
  EXPECT_TRUE(plain.lengths.equal(at::tensor({2, 1}, at::kLong)));
  EXPECT_TRUE(plain.target.equal(at::tensor({0, 1}, at::kLong)));
  EXPECT_FALSE(plain.padded_left);

  options.output = {.format = "CBT", .target_format = "CB", .one_hot = true, .mean = {1}};
  options.pictures = format_of(dataset);
  options.pictures->padding = PaddingSide::left;
  const Shard labelled = MiniBatchQueue(dataset, {}, options).next()->shards.back();
  EXPECT_TRUE(labelled.input.equal(at::tensor({0.f, 0.f, 0.f, 0.f, 0.f, -1.f, -1.f, 0.f, 0.f, 0.f}).view({1, 2, 5})));
  EXPECT_TRUE(labelled.target.equal(at::tensor({0.f, 0.f, 1.f, 1.f}).view({2, 2})));
  EXPECT_TRUE(labelled.padded_left);
  options.output = {.format = "BCSS"};
  EXPECT_THROW(MiniBatchQueue(dataset, {}, options), Error);
}

TEST(DatasetQueue, TargetsOfTimeStepsHaveATimeDimension) {
  const Dataset dataset = make_sequences(1, {"a", "b"}, {{.values = {1, 2, 3}, .step_labels = {0, 1, -1}}, {.values = {4}, .step_labels = {1}}});
  QueueOptions options{.mini_batch_size = 2, .shards = 1, .order = {.shuffle = Shuffle::never}, .output = {.target_format = "TB"}};
  const auto first = [&] { return MiniBatchQueue(dataset, {}, options).next().value(); };
  const Batch numbers = first();
  EXPECT_EQ(numbers.target_count, 3);
  EXPECT_TRUE(numbers.shards[0].target.equal(at::tensor({0, 1, 1, -1, -1, -1}, at::kLong).view({3, 2})));
  options.output = {.one_hot = true};
  EXPECT_TRUE(first().shards[0].target.equal(at::tensor({1.f, 0.f, 0.f, 0.f, 1.f, 0.f, 0.f, 0.f, 0.f, 1.f, 0.f, 0.f}).view({2, 2, 3})));  // [b,classes,T]
  options.output = {.collate = [](const at::Tensor& values, const at::Tensor&) { return Collated{values, values}; }};
  EXPECT_EQ(first().target_count, 2) << "a mean over the samples, where the targets are not the labels";
  options.output = {.target_format = "CB"};
  EXPECT_THROW(first(), Error);
}

TEST(DatasetQueue, AChosenDeviceWins) {
  MiniBatchQueue queue(plain_numbers(8), {}, {.mini_batch_size = 8, .output = {.device = OutputDevice::gpu, .chosen_device = at::kCPU}});
  EXPECT_TRUE(queue.next()->shards.front().input.is_cpu());
}

}  // namespace
}  // namespace lockstep::data
