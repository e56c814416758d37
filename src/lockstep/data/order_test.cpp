#include "lockstep/data/order.h"

#include <set>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/data/datastore.h"
#include "lockstep/data/distributed_sampler.h"

namespace lockstep::data {
namespace {

TEST(Order, IsAPureFunctionOfSeedAndEpoch) {
  const Order order{.seed = 3};
  EXPECT_EQ(order.of_epoch(100, 2), order.of_epoch(100, 2));
  EXPECT_NE(order.of_epoch(100, 2), order.of_epoch(100, 3));
  EXPECT_NE(order.of_epoch(100, 2), Order{.seed = 4}.of_epoch(100, 2));
  const Order once{.seed = 3, .shuffle = Shuffle::once};
  EXPECT_EQ(once.of_epoch(100, 5), order.of_epoch(100, 0));
  const auto plain = Order{.seed = 3, .shuffle = Shuffle::never}.of_epoch(4, 5);
  EXPECT_EQ(plain, (std::vector<int64_t>{0, 1, 2, 3}));
}

// interop_sampler compares with torch.utils.data.DistributedSampler.
TEST(Order, OfASamplersReplicasGoesMiniBatchByMiniBatch) {
  const Order order{.seed = 1, .sampler_replicas = 3, .replica_mini_batch_size = 3};
  EXPECT_EQ(order.epoch_size(10), 12);
  const auto samples = order.of_epoch(10, 2);
  ASSERT_EQ(samples.size(), 12U);
  const auto drawn = distributed_samples(10, 3, 3);
  EXPECT_EQ(std::set<int64_t>(drawn.begin(), drawn.begin() + 10).size(), 10U);
  EXPECT_EQ(std::vector<int64_t>(drawn.begin() + 10, drawn.end()),
            (std::vector<int64_t>{drawn[0], drawn[1]}));
  for (int64_t rank = 0; rank < 3; ++rank) {
    for (int64_t i = 0; i < 3; ++i)
      EXPECT_EQ(samples[static_cast<size_t>(rank * 3 + i)], drawn[static_cast<size_t>(i * 3 + rank)]);
    EXPECT_EQ(samples[static_cast<size_t>(9 + rank)], drawn[static_cast<size_t>(9 + rank)]);
  }
  const Order plain{.shuffle = Shuffle::never, .sampler_replicas = 2, .replica_mini_batch_size = 2};
  EXPECT_EQ(plain.of_epoch(5, 0), (std::vector<int64_t>{0, 2, 1, 3, 4, 0}));
}

TEST(Order, MiniBatchesCoverTheEpoch) {
  EXPECT_EQ(steps_per_epoch(10, 4), 3);
  EXPECT_EQ(mini_batch_range(10, 4, 2), (Range{8, 10}));
}

// Labels only; its images are one pixel that holds the index.
class Labelled : public Datastore {
 public:
  explicit Labelled(std::vector<int64_t> labels) : labels_(std::move(labels)) {}
  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t index) const override { return labels_.at(static_cast<size_t>(index)); }
  std::string source(int64_t index) const override { return "#" + std::to_string(index); }
  ImageSize image_size(int64_t) const override { return {1, 1, 1}; }
  void read_to(int64_t index, const PixelSink& sink) const override {
    sink({1, 1, 1})[0] = static_cast<uint8_t>(index);
  }
  uint64_t listing_hash() const override { return 7; }

 private:
  std::vector<int64_t> labels_;
  std::vector<std::string> classes_{"a", "b", "c"};
};

TEST(Split, DrawsItsShareOfEachLabelAndLosesNothing) {
  std::vector<int64_t> labels(100, 0);
  labels.insert(labels.end(), 11, 1);
  labels.push_back(2);
  const Dataset whole(std::make_shared<Labelled>(labels));
  const auto [train, held_out] = whole.split(0.9, {.seed = 1});
  EXPECT_EQ(train.size(), 90 + 10 + 1);
  EXPECT_EQ(held_out.size(), 10 + 1);
  std::set<int> seen;
  for (const Dataset& part : {train, held_out}) {
    int before = -1;
    for (int64_t i = 0; i < part.size(); ++i) {
      const int index = part.store().read(i).pixels[0];
      EXPECT_GT(index, before);
      EXPECT_EQ(part.store().label(i), labels[static_cast<size_t>(index)]);
      seen.insert(index);
      before = index;
    }
  }
  EXPECT_EQ(seen.size(), labels.size());
}

TEST(Split, TakesACountOfEachLabel) {
  const Dataset whole(
      std::make_shared<Labelled>(std::vector<int64_t>{0, 0, 0, 2, 2, 2, 2, 2}));  // none of "b"
  const auto labels_of = [](const Dataset& part) {
    std::multiset<int64_t> labels;
    for (int64_t i = 0; i < part.size(); ++i) labels.insert(part.store().label(i));
    return labels;
  };
  const auto [first, rest] = whole.split_by_count(2, {.seed = 3});
  EXPECT_EQ(labels_of(first), (std::multiset<int64_t>{0, 0, 2, 2}));
  EXPECT_EQ(labels_of(rest), (std::multiset<int64_t>{0, 2, 2, 2}));
  EXPECT_EQ(first.store().listing_hash(), whole.split_by_count(2, {.seed = 3}).first.store().listing_hash());
  std::set<uint64_t> drawn;
  for (int64_t seed = 0; seed < 10; ++seed)
    drawn.insert(whole.split_by_count(2, {.seed = seed}).first.store().listing_hash());
  EXPECT_GT(drawn.size(), 5u);
  const auto refusal = [&](int64_t count) -> std::string {
    try {
      whole.split_by_count(count);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(
      refusal(3),
      "cannot take 3 samples of each class for a split: class \"a\" has 3, and at least one must remain\n  "
      "hint: use at most 2");
  const Dataset few_of_last(std::make_shared<Labelled>(std::vector<int64_t>{0, 0, 0, 0, 1, 1, 1, 2, 2}));
  try {
    few_of_last.split_by_count(3);
    ADD_FAILURE() << "it took all of two classes";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("class \"c\" has 2,"), std::string::npos) << "the smallest one";
  }
  EXPECT_EQ(refusal(0), "a split cannot take 0 samples of each class\n  hint: use 1 or more");
}

// The sizes are those of StratifiedKFold(3) of scikit-learn for these labels.
TEST(Split, DealsEachSampleToOneFold) {
  std::vector<int64_t> labels(7, 0);
  labels.insert(labels.end(), 5, 1);
  labels.insert(labels.end(), 4, 2);
  const Dataset whole(std::make_shared<Labelled>(labels));
  const std::vector<std::vector<int64_t>> counts{{3, 1, 2}, {2, 2, 1}, {2, 2, 1}};
  std::multiset<int> held_out;
  for (int64_t fold = 0; fold < 3; ++fold) {
    const auto [rest, part] = whole.split_fold(3, fold, {.seed = 4});
    EXPECT_EQ(rest.size() + part.size(), whole.size());
    std::vector<int64_t> of_label(3);
    for (int64_t i = 0; i < part.size(); ++i) {
      ++of_label[static_cast<size_t>(part.store().label(i))];
      held_out.insert(part.store().read(i).pixels[0]);
    }
    EXPECT_EQ(of_label, counts[static_cast<size_t>(fold)]);
    EXPECT_EQ(part.store().listing_hash(),
              whole.split_fold(3, fold, {.seed = 4}).second.store().listing_hash());
    EXPECT_NE(part.store().listing_hash(),
              whole.split_fold(3, fold, {.seed = 5}).second.store().listing_hash());
  }
  EXPECT_EQ(held_out.size(), labels.size());
  EXPECT_EQ(std::set<int>(held_out.begin(), held_out.end()).size(), labels.size());
  EXPECT_THROW(whole.split_fold(1, 0), Error);
  EXPECT_THROW(whole.split_fold(17, 0), Error);
  EXPECT_THROW(whole.split_fold(3, 3), Error);
}

TEST(Split, RepeatsBySeedAndKeepsOneOfEachLabelOnBothSides) {
  const Dataset whole(std::make_shared<Labelled>(std::vector<int64_t>{0, 0, 1, 1, 1, 2, 2, 2, 2, 2}));
  EXPECT_EQ(whole.split(0.5, {.seed = 1}).first.store().listing_hash(),
            whole.split(0.5, {.seed = 1}).first.store().listing_hash());
  std::set<uint64_t> drawn;
  for (int64_t seed = 0; seed < 10; ++seed)
    drawn.insert(whole.split(0.5, {.seed = seed}).first.store().listing_hash());
  EXPECT_GT(drawn.size(), 5u);
  for (const double share : {0.001, 0.999}) {
    const auto [first, second] = whole.split(share);
    for (const Dataset& part : {first, second}) {
      std::set<int64_t> labels;
      for (int64_t i = 0; i < part.size(); ++i) labels.insert(part.store().label(i));
      EXPECT_EQ(labels.size(), 3u);
    }
  }
  EXPECT_THROW(whole.split(1.0), Error);
  EXPECT_THROW(whole.subset({10}), Error);
}

TEST(Subset, OfASubsetTellsTheRightSamples) {
  const Dataset whole(std::make_shared<Labelled>(std::vector<int64_t>{0, 1, 2, 0, 1}));
  const Dataset twice = whole.subset({4, 2, 0}).subset({2, 0});
  ASSERT_EQ(twice.size(), 2);
  EXPECT_EQ(twice.store().source(0), "#0");
  EXPECT_EQ(twice.store().source(1), "#4");
  EXPECT_EQ(twice.store().read(1).pixels[0], 4);
  EXPECT_EQ(whole.subset({0, 1}).size(), 2);
  EXPECT_NE(whole.subset({0, 1}).store().listing_hash(), whole.subset({1, 0}).store().listing_hash());
}

TEST(Dataset, WithoutADatastoreHasNoClassesAndNoParts) {
  const Dataset none;
  EXPECT_TRUE(none.empty());
  EXPECT_TRUE(none.classes().empty());
  EXPECT_TRUE(none.split(0.5).first.empty());
  EXPECT_TRUE(none.split_by_count(1).second.empty());
  EXPECT_TRUE(none.shuffle(1).empty());
  EXPECT_TRUE(none.partition(2, 1).empty());
  EXPECT_THROW(none.split_fold(2, 0), Error);
  try {
    none.store();
    ADD_FAILURE() << "it has a datastore";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_option);
    EXPECT_EQ(error.message(), "the dataset is empty: it was made by data::Dataset()");
  }
}

}  // namespace
}  // namespace lockstep::data
