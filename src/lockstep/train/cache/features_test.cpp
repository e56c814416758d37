// Kept features: in memory, in files, and in files that have lost some of them.
#include "lockstep/train/cache/features.h"

#include <cstring>
#include <fstream>
#include <thread>

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/test_folder.h"
#include "lockstep/nn/layers.h"

namespace lockstep::train {
namespace {

constexpr int64_t kCount = 53;  // three groups and a part
constexpr nn::NetworkInput kInput{1, 28, 28, 10};

// Grey images of 28x28, no two of them alike.
class Slopes : public data::Datastore {
 public:
  explicit Slopes(int64_t count) : count_(count) {}
  int64_t size() const override { return count_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t index) const override { return index % 2; }
  std::string source(int64_t index) const override { return "#" + std::to_string(index); }
  data::ImageSize image_size(int64_t) const override { return {1, 28, 28}; }
  void read_to(int64_t index, const data::PixelSink& sink) const override {
    for (int64_t pixel = 0; uint8_t & level : sink({1, 28, 28}))
      level = static_cast<uint8_t>(pixel++ * (index + 1) / 7);
  }
  uint64_t listing_hash() const override { return 1; }

 private:
  int64_t count_;
  std::vector<std::string> classes_{"even", "odd"};
};

// The features of digits_cnn's first seven layers.
class FeaturesTest : public testing::Test {
 protected:
  FeaturesTest()
      : instance_(seeded_instance(nn::find_network("digits_cnn"), kInput, 1)),
        weights_(instance_, at::kFloat, at::kCPU),
        norms_(probe_batch_norms(instance_, kInput)),
        runner_(instance_, weights_, norms_, {.frozen = {7, kFeaturesGroup}}) {
    at::set_num_threads(1);
    runner_.begin_evaluation();
    record_bytes_ = expected().numel() / kCount * 4;
  }

  static std::shared_ptr<const data::ImageSet> images(int64_t count = kCount) {
    return std::make_shared<const data::ImageSet>(data::Dataset(std::make_shared<Slopes>(count)),
                                                  data::ImageFormat{.channels = 1, .height = 28, .width = 28},
                                                  /*most_bytes=*/0);
  }
  std::shared_ptr<const data::RecordFile> file(int64_t count = kCount) const {
    return data::RecordFile::find_or_make(
        folder_.path() / "of.features",
        {.identity = 1, .content = 2, .count = Features::records(count), .record_bytes = record_bytes_});
  }
  at::Tensor all_rows(const Features& features) { return features.rows(at::arange(kCount), runner_); }
  at::Tensor expected() {
    Features features(images(), {});
    features.compute({}, runner_, {});
    return all_rows(features);
  }
  at::Tensor rows_of(FeatureStorage storage, int64_t& computed) {
    Features features(images(), std::move(storage));
    for (const int64_t thread : {0, 1}) features.compute({thread, 2}, runner_, {});
    computed = features.computed();
    return all_rows(features);
  }

  const lockstep::test::TemporaryFolder folder_;
  nn::Instance instance_;
  SharedWeights weights_;
  std::vector<BatchNormInfo> norms_;
  ShardRunner runner_;
  int64_t record_bytes_ = 0;
};

TEST_F(FeaturesTest, AreTheSameInMemoryAndInFilesAndFoundAgain) {
  const at::Tensor expected = this->expected();
  int64_t computed = 0;
  EXPECT_TRUE(at::equal(rows_of({.file = file()}, computed), expected));
  EXPECT_EQ(computed, kCount);
  for (const bool in_memory : {true, false}) {
    EXPECT_TRUE(at::equal(rows_of({in_memory, file()}, computed), expected));
    EXPECT_EQ(computed, 0);
  }
}

// As trials of a sweep and ranks do.
TEST_F(FeaturesTest, ThoseThatBeginTogetherShareTheWork) {
  constexpr int64_t kMany = 4096;
  std::deque<Features> both;
  for (int i = 0; i < 2; ++i) both.emplace_back(images(kMany), FeatureStorage{.file = file(kMany)});
  {
    std::vector<std::jthread> threads;
    for (Features& features : both)
      threads.emplace_back([&] {
        at::set_num_threads(1);
        ShardRunner runner(instance_, weights_, norms_, {.frozen = {7, kFeaturesGroup}});
        runner.begin_evaluation();
        features.compute({}, runner, {});
      });
  }
  EXPECT_LT(both[0].computed() + both[1].computed(), kMany * 5 / 4);
  const at::Tensor samples = at::arange(kMany);
  EXPECT_TRUE(at::equal(both[0].rows(samples, runner_), both[1].rows(samples, runner_)));
}

TEST_F(FeaturesTest, WhatAFileLostIsComputedAgain) {
  const at::Tensor expected = this->expected();
  int64_t computed = 0;
  Features features(images(), {.in_memory = false, .file = file()});
  features.compute({}, runner_, {});
  std::filesystem::resize_file(folder_.path() / "of.features", 4096 + 20 * (record_bytes_ + 8));
  EXPECT_TRUE(at::equal(all_rows(features), expected)) << "cut short by somebody else during the run";
  EXPECT_TRUE(at::equal(rows_of({.in_memory = false, .file = file()}, computed), expected));
  EXPECT_EQ(computed, kCount) << "a file that was cut short is made anew";
  {
    std::fstream damaged(folder_.path() / "of.features", std::ios::binary | std::ios::in | std::ios::out);
    damaged.seekp(4096 + 20 * (record_bytes_ + 8) + 100);
    damaged << "damage";
  }
  EXPECT_TRUE(at::equal(rows_of({.in_memory = false, .file = file()}, computed), expected));
  EXPECT_EQ(computed, 16);
}

TEST_F(FeaturesTest, AFileThatLostWhatAnOutputLooksLikeIsReadAfterTheFirstGroups) {
  const at::Tensor expected = this->expected();
  int64_t computed = 0;
  rows_of({.file = file()}, computed);
  // Damaged, then good by its checksum but of no output: what any program may write.
  std::vector<uint8_t> record(static_cast<size_t>(record_bytes_));
  ASSERT_TRUE(file()->read(kCount, record));
  for (const auto& [word, value] : {std::pair{0, 99}, {1, 77}, {2, 1 << 20}, {2, -1}, {3, 0}, {3, 7}}) {
    std::vector<uint8_t> wrong = record;
    const int64_t written = value;
    std::memcpy(wrong.data() + word * 8, &written, sizeof written);
    file()->write(kCount, wrong);
    for (const bool in_memory : {true, false}) {
      EXPECT_TRUE(at::equal(rows_of({in_memory, file()}, computed), expected)) << word << " is " << value;
      // The first run repaired it: each thread computed one group, the last of which has 5 samples. Any
      // number except 0 means that channels are last.
      EXPECT_THAT(computed, in_memory && word != 1 ? testing::AnyOf(16 + 16, 16 + 5) : testing::AnyOf(0, 0))
          << word << " is " << value;
    }
  }
  {
    std::fstream damaged(folder_.path() / "of.features", std::ios::binary | std::ios::in | std::ios::out);
    damaged.seekp(4096 + kCount * (record_bytes_ + 8) + 8);
    damaged << "damage";
  }
  EXPECT_TRUE(at::equal(rows_of({.in_memory = false, .file = file()}, computed), expected));
  EXPECT_THAT(computed, testing::AnyOf(16 + 16, 16 + 5)) << "one group by each thread";
}

TEST_F(FeaturesTest, AFileOfOtherRecordsIsOnlyUsedWhereMemoryHasThem) {
  const auto other = data::RecordFile::find_or_make(
      folder_.path() / "other.features",
      {.identity = 1, .content = 2, .count = Features::records(kCount), .record_bytes = record_bytes_ / 2});
  int64_t computed = 0;
  EXPECT_TRUE(at::equal(rows_of({.file = other}, computed), expected()));
  EXPECT_THROW(rows_of({.in_memory = false, .file = other}, computed), Error);
}

}  // namespace
}  // namespace lockstep::train
