#include "lockstep/train/planning/run_memory.h"

#include <gtest/gtest.h>

#include "lockstep/train/planning/prepare.h"

namespace lockstep::train {
namespace {

class NamedSlopes : public data::Datastore {
 public:
  explicit NamedSlopes(std::string identity) : identity_(std::move(identity)) {}
  int64_t size() const override { return 24; }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t index) const override { return index % 2; }
  std::string source(int64_t index) const override { return "#" + std::to_string(index); }
  data::ImageSize image_size(int64_t) const override { return {1, 30, 40}; }
  void read_to(int64_t index, const data::PixelSink& sink) const override {
    for (int64_t pixel = 0; uint8_t & level : sink({1, 30, 40}))
      level = static_cast<uint8_t>(pixel++ % 100 + index);
  }
  uint64_t listing_hash() const override { return 1; }
  std::string identity() const override { return identity_; }

 private:
  std::string identity_;
  std::vector<std::string> classes_{"even", "odd"};
};

class MemoryOfARun : public testing::Test {
 protected:
  MemoryOfARun() {
    options_.network = "mlp";
    options_.recipe = Recipe::plain;
    options_.execution = Execution::cpu;
  }

  TrainingRequest request_for(const std::string& identity) const {
    TrainingRequest request;
    request.dataset = data::Dataset(std::make_shared<NamedSlopes>(identity));
    request.images = share_;
    return request;
  }
  std::map<std::string, double> images_of(const std::string& identity, const char* size) {
    options_.image_size = size;
    const RunMemory memory = memory_of_run(request_for(identity), options_);
    EXPECT_GT(memory.own, 0);
    EXPECT_TRUE(memory.gpus.empty());
    return memory.images;
  }

  Options options_;
  std::shared_ptr<data::ImageShare> share_ = std::make_shared<data::ImageShare>();
};

TEST_F(MemoryOfARun, CountsItsImagesAlsoWhileOthersUseThem) {
  const auto alone = images_of("slopes", "8x9");
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_EQ(share_->kept_bytes(), 0) << "they are measured apart";
  const Prepared other = prepare(request_for("slopes"), options_, /*dry=*/true);
  EXPECT_EQ(alone.begin()->second, static_cast<double>(share_->kept_bytes()));
  EXPECT_GT(share_->kept_bytes(), 0);
  EXPECT_EQ(images_of("slopes", "8x9"), alone);

  const auto larger = images_of("slopes", "16x18");
  ASSERT_EQ(larger.size(), 1u);
  EXPECT_NE(larger.begin()->first, alone.begin()->first);
  EXPECT_EQ(larger.begin()->second, 4 * alone.begin()->second);
  EXPECT_TRUE(images_of("", "8x9").empty()) << "no other run has the same images";
}

}  // namespace
}  // namespace lockstep::train
