// Resident images on the CPU. The code that gathers is the code that runs on a GPU.
#include "lockstep/train/cache/resident_images.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

using testing::HasSubstr;

constexpr int64_t kResidentCount = 53;

// Coloured images of 5x7, no two of them alike; one of them may be broken.
class ResidentSlopes : public data::Datastore {
 public:
  explicit ResidentSlopes(int64_t broken = -1) : broken_(broken) {}
  int64_t size() const override { return kResidentCount; }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t index) const override { return index % 2; }
  std::string source(int64_t index) const override { return "#" + std::to_string(index); }
  data::ImageSize image_size(int64_t) const override { return {3, 5, 7}; }
  void read_to(int64_t index, const data::PixelSink& sink) const override {
    if (index == broken_) throw data::BadImage(source(index), "it is broken");
    for (int64_t pixel = 0; uint8_t & level : sink({3, 5, 7}))
      level = static_cast<uint8_t>(pixel++ + 2 * index);
  }
  uint64_t listing_hash() const override { return 1; }

 private:
  int64_t broken_;
  std::vector<std::string> classes_{"even", "odd"};
};

std::shared_ptr<const data::ImageSet> images(int64_t broken = -1) {
  return std::make_shared<const data::ImageSet>(data::Dataset(std::make_shared<ResidentSlopes>(broken)),
                                                data::ImageFormat{.channels = 3, .height = 5, .width = 7},
                                                /*most_bytes=*/0);
}

ResidentImages loaded(const std::shared_ptr<const data::ImageSet>& set) {
  ResidentImages resident(set, at::kCPU);
  resident.load(/*threads=*/3, {});
  return resident;
}

TEST(ResidentImages, MiniBatchesAreThoseOfTheQueueForEveryWorker) {
  const auto set = images();
  const ResidentImages resident = loaded(set);
  EXPECT_EQ(resident.bytes(), kResidentCount * 3 * 5 * 7);
  for (const int64_t workers : {1, 3}) {
    int64_t samples = 0;
    for (int64_t rank = 0; rank < workers; ++rank) {
      data::QueueOptions options{.mini_batch_size = 16, .shards = 4, .order = {.seed = 5}, .epochs = 2};
      data::MiniBatchQueue usual(set, {rank, workers}, options);
      options.images_wanted = false;
      data::MiniBatchQueue places(set, {rank, workers}, options);
      while (const auto expected = usual.next()) {
        auto batch = places.next();
        ASSERT_TRUE(batch);
        resident.fill(batch->shards);
        ASSERT_EQ(batch->shards.size(), expected->shards.size());
        for (size_t i = 0; i < batch->shards.size(); ++i) {
          samples += batch->shards[i].count;
          EXPECT_TRUE(at::equal(batch->shards[i].images, expected->shards[i].images));
          EXPECT_TRUE(at::equal(batch->shards[i].target, expected->shards[i].target));
        }
        if (batch->shards.empty()) continue;
        EXPECT_TRUE(at::equal(data::joined(batch->shards).images, data::joined(expected->shards).images));
      }
      EXPECT_FALSE(places.next());
    }
    EXPECT_EQ(samples, 2 * kResidentCount);  // the last mini-batch of an epoch has 5
  }
}

TEST(ResidentImages, AnImageThatCannotBeReadIsNamed) {
  ResidentImages resident(images(/*broken=*/17), at::kCPU);
  try {
    resident.load(2, {});
    FAIL() << "a broken image was read";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("\"#17\" (sample 18 of 53): it is broken"));
  }
}

TEST(ResidentImages, ADeviceThatDoesNotTakeThemLeavesThemOnTheHostAndSaysSo) {
  std::vector<std::string> said;
  const auto warn = [&](std::string text) { said.push_back(std::move(text)); };
  EXPECT_EQ(take_resident({images(), images()}, at::kCPU, false, warn).size(), 2);
  EXPECT_TRUE(said.empty());
  // LibTorch's CUDA part is in the plug-in, which is not opened here.
  EXPECT_TRUE(take_resident({images()}, at::kCUDA, false, warn).empty());
  ASSERT_EQ(said.size(), 1);
  EXPECT_THAT(said.front(), HasSubstr("the images stay on the host"));
  EXPECT_THROW(take_resident({images()}, at::kCUDA, true, warn), Error);
}

Plan plan_on_gpu() {
  Plan plan;
  plan.machine.device = "cuda";
  plan.data.format = {.channels = 1, .height = 10, .width = 10};
  plan.data.train_count = 900;
  plan.data.validation_count = 100;
  return plan;
}

TEST(ResidentImages, TheyLieThereWhereTheyFitAndNothingChangesThem) {
  const Plan plan = plan_on_gpu();
  const ResidentChoice fits = choose_resident(plan, Resident::auto_, 400'000),
                       large = choose_resident(plan, Resident::auto_, 399'999);
  EXPECT_TRUE(fits.use);
  EXPECT_THAT(fits.reason, HasSubstr("within 0.25 of"));
  EXPECT_FALSE(large.use);
  EXPECT_THAT(large.reason, HasSubstr("more than 0.25 of"));
  EXPECT_TRUE(choose_resident(plan, Resident::on, 1).use);
  EXPECT_FALSE(choose_resident(plan, Resident::off, 400'000).use);

  Plan on_cpu = plan, features = plan, augmented = plan;
  on_cpu.machine.device = "cpu";
  for (const Resident asked : {Resident::auto_, Resident::on})
    EXPECT_FALSE(choose_resident(on_cpu, asked, 0).use);
  features.network.keep_features = true;
  augmented.data.augment.flip = true;
  for (const Plan& against : {augmented, features}) {
    EXPECT_FALSE(choose_resident(against, Resident::auto_, 400'000).use);
    EXPECT_THROW(choose_resident(against, Resident::on, 400'000), Error);
  }
}

TEST(ResidentImages, TrialsCountThemWhateverIsFreeNow) {
  Plan plan = plan_on_gpu();
  EXPECT_EQ(most_resident_bytes(plan, Resident::auto_, 400'000), 100'000);
  EXPECT_EQ(most_resident_bytes(plan, Resident::auto_, 399'999), 0) << "they never fit";
  EXPECT_EQ(most_resident_bytes(plan, Resident::on, 399'999), 100'000);
  EXPECT_EQ(most_resident_bytes(plan, Resident::off, 400'000), 0);
  plan.network.keep_features = true;
  EXPECT_EQ(most_resident_bytes(plan, Resident::auto_, 400'000), 0);
}

}  // namespace
}  // namespace lockstep::train
