#include "lockstep/train/planning/split.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/data/images_in_memory.h"

namespace lockstep::train {
namespace {

using testing::ElementsAre;
using testing::Pair;

// Images of one pixel with these labels.
data::Dataset labelled(std::vector<int64_t> labels) {
  const std::vector<uint8_t> pixels(labels.size());
  return data::make_images({1, 1, 1}, {"a", "b", "c", "d"}, pixels, std::move(labels));
}

std::map<int64_t, int64_t> counts_of(const data::Dataset& dataset) {
  std::map<int64_t, int64_t> counts;
  for (int64_t i = 0; i < dataset.size(); ++i) ++counts[dataset.store().label(i)];
  return counts;
}

TEST(LimitSamples, LeavesTheSameShareOfEachLabelInAnyOrder) {
  std::vector<int64_t> in_turn, in_blocks;
  for (int64_t i = 0; i < 400; ++i) {
    in_turn.push_back(i % 4);
    in_blocks.push_back(i / 100);
  }
  Datasets sets{labelled(in_turn), labelled(in_blocks), {}, {}};
  limit_samples(sets, 5, 20);
  for (const data::Dataset& set : {sets.train, sets.validation})
    EXPECT_THAT(counts_of(set), ElementsAre(Pair(0, 25), Pair(1, 25), Pair(2, 25), Pair(3, 25)));
}

TEST(LimitSamples, KeepsTheOrderAndSmallSets) {
  const data::Dataset train = labelled({0, 0, 0, 0, 1, 1, 1, 1}), few = labelled({3, 1});
  Datasets sets{train, few, {}, {}};
  limit_samples(sets, 2, 2);
  EXPECT_EQ(sets.validation.size(), 2);
  std::vector<std::string> sources;
  for (int64_t i = 0; i < sets.train.size(); ++i) sources.push_back(sets.train.store().source(i));
  EXPECT_THAT(sources, ElementsAre("image 0", "image 2", "image 4", "image 6"));
}

TEST(HoldOut, SaysWhichLabelsHaveNoSampleLeft) {
  const auto reason = [](std::vector<int64_t> labels) {
    Datasets sets{labelled(std::move(labels)), {}, {}, {}};
    return hold_out(sets, {.validation_split = 0.5}, {});
  };
  EXPECT_EQ(reason({0, 0, 1, 1}), "0.5 of each label");
  EXPECT_EQ(reason({0, 0, 0, 0, 1}), "0.5 of each label; 1 label with one sample has none");
  EXPECT_EQ(reason({0, 0, 1, 2}), "0.5 of each label; 2 labels with one sample have none");
}

}  // namespace
}  // namespace lockstep::train
