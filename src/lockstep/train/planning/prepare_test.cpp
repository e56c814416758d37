#include "lockstep/train/planning/prepare.h"

#include <algorithm>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/Functions.h>

#include "lockstep/base/error.h"
#include "lockstep/data/mini_batch_stream.h"
#include "lockstep/device/inventory.h"
#include "lockstep/nn/layers.h"
#include "lockstep/train/planning/internal/line_groups.h"

namespace lockstep::train {
namespace {

using testing::HasSubstr;

// Grey images of 30x40, no two of them alike, with one channel or the same in three.
class PreparedSlopes : public data::Datastore {
 public:
  explicit PreparedSlopes(int64_t channels = 1) : size_{channels, 30, 40} {}
  PreparedSlopes(std::vector<std::string> classes, int64_t label_of_17)
      : classes_(std::move(classes)), label_of_17_(label_of_17) {}

  int64_t size() const override { return 24; }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t index) const override { return index == 17 ? label_of_17_ : index % 2; }
  std::string source(int64_t index) const override { return "#" + std::to_string(index); }
  data::ImageSize image_size(int64_t) const override { return size_; }
  void read_to(int64_t index, const data::PixelSink& placement) const override {
    int64_t pixel = 0;
    for (uint8_t& level : placement(size_))
      level = static_cast<uint8_t>(pixel++ % (size_.height * size_.width) / 8 + 4 * index);
  }
  uint64_t listing_hash() const override { return 1; }

 private:
  data::ImageSize size_{1, 30, 40};
  std::vector<std::string> classes_{"even", "odd"};
  int64_t label_of_17_ = 1;
};

Options options_with(const char* augment, const char* resize_to) {
  Options options;
  options.network = "mlp";
  options.image_size = "8x9";
  options.resize_to = resize_to;
  options.augment = augment;
  return options;
}

Prepared prepared_with(const Options& options) {
  TrainingRequest request;
  request.dataset = data::Dataset(std::make_shared<PreparedSlopes>());
  return prepare(request, options, /*dry=*/true);
}

std::vector<std::vector<uint8_t>> all_of(const data::ImageSet& images) {
  std::vector<std::vector<uint8_t>> all;
  for (int64_t i = 0; i < images.size(); ++i) {
    all.emplace_back(static_cast<size_t>(images.image_bytes()));
    images.read(i, all.back());
  }
  return all;
}

// Earlier programs took three channels for three colours.
TEST(Prepare, ARunThatBeganInColourGoesOnInColour) {
  TrainingRequest request;
  request.dataset = data::Dataset(std::make_shared<PreparedSlopes>(/*channels=*/3));
  Options options = options_with("none", "");
  Plan earlier = prepare(request, options, /*dry=*/true).plan;
  EXPECT_EQ(earlier.data.format.channels, 1);
  earlier.data.format.channels = earlier.network.input.channels = 3;
  options.resume = true;
  EXPECT_EQ(prepare(request, options, /*dry=*/true, &earlier).plan.data.format.channels, 3);
}

TEST(Prepare, ImagesThatMayHaveColoursAreNotReadAsGreyInSilence) {
  class ManySlopes : public PreparedSlopes {
   public:
    ManySlopes() : PreparedSlopes(/*channels=*/3) {}
    int64_t size() const override { return 60; }
  };
  TrainingRequest request;
  request.dataset = data::Dataset(std::make_shared<ManySlopes>());
  Options options = options_with("none", "");
  const Prepared first = prepare(request, options, /*dry=*/true);
  EXPECT_THAT(first.notes, testing::Contains(HasSubstr("--color rgb")));
  EXPECT_THAT(prepare(request, options, /*dry=*/true, &first.plan).notes,
              testing::Not(testing::Contains(HasSubstr("--color"))));
  options.color = Color::grey;
  EXPECT_THAT(prepare(request, options, /*dry=*/true).notes,
              testing::Not(testing::Contains(HasSubstr("--color"))));
}

// Every rank but the first prepares with the plan of the first.
TEST(Prepare, RanksOfAStreamHaveItsChannels) {
  const auto next = [left = 4]() mutable -> std::optional<data::MiniBatch> {
    if (left-- == 0) return std::nullopt;
    return data::MiniBatch{at::zeros({4, 3, 8, 8}, at::kByte), at::arange(4).remainder(2)};
  };
  TrainingRequest request;
  request.stream = std::make_shared<data::MiniBatchStream>(next, data::StreamOptions{});
  request.network = nn::find_network("mlp");
  Options options;
  options.exchange = ExchangeKind::average;
  const Plan first = prepare(request, options, /*dry=*/true).plan;
  EXPECT_EQ(prepare(request, options, /*dry=*/true, &first).plan.data.format.channels, 3);
}

TEST(Prepare, ThreeChannelsStayWhereTheNormalisationOrTheNetworkWantsThem) {
  TrainingRequest request;
  request.dataset = data::Dataset(std::make_shared<PreparedSlopes>(/*channels=*/3));
  const auto channels_with = [&](const char* normalize) {
    Options options = options_with("none", "");
    options.normalize = normalize;
    return prepare(request, options, /*dry=*/true).plan.data.format.channels;
  };
  EXPECT_EQ(channels_with("none"), 1);
  EXPECT_EQ(channels_with("imagenet"), 3);
  EXPECT_EQ(channels_with("0.5,0.2,0.5,0.2,0.5,0.2"), 3);
  request.network = nn::find_network("mlp");
  EXPECT_EQ(prepare(request, options_with("none", ""), /*dry=*/true).plan.data.format.channels, 3);
}

TEST(Prepare, RandomPartsAreOfLargerTrainingImagesAndOthersAreCentres) {
  const data::ImageSize small{1, 8, 9}, larger{1, 12, 16};
  const Prepared centres = prepared_with(options_with("flip", "12x16"));
  EXPECT_EQ(centres.train->format().size(), small);
  EXPECT_TRUE(queue_cut(centres.plan.data).empty());
  for (const char* augment : {"random-crop", "random-resized-crop,flip"}) {
    const Options options = options_with(augment, "12x16");
    const Prepared parts = prepared_with(options);
    EXPECT_EQ(queue_cut(parts.plan.data), (std::vector<int64_t>{8, 9}));
    EXPECT_EQ(parts.train->format().size(), larger);
    EXPECT_EQ(parts.plan.data.format.size(), small);
    EXPECT_EQ(parts.train->size(), centres.train->size());
    ASSERT_NE(parts.validation, nullptr);
    EXPECT_EQ(all_of(*parts.validation), all_of(*centres.validation));
    const auto line = std::find_if(parts.plan.lines.begin(), parts.plan.lines.end(),
                                   [](const PlanLine& one) { return one.name == "image size"; });
    ASSERT_TRUE(line != parts.plan.lines.end());
    EXPECT_THAT(line->reason, HasSubstr("random parts of images fitted to 12x16"));
  }
  EXPECT_EQ(prepared_with(options_with("random-resized-crop", "")).train->format().size(), small);
}

TEST(Prepare, HeldOutImagesThatFitOnlyWithoutTheOthersAreToldOf) {
  TrainingRequest request;
  request.dataset = data::Dataset(std::make_shared<PreparedSlopes>());
  request.validation = data::Dataset(std::make_shared<PreparedSlopes>());
  Options options = options_with("none", "");
  const auto one_set = static_cast<double>(request.dataset.size() * 8 * 9);
  for (const double sets : {2.5, 1.5}) {
    options.memory_share = sets * one_set / static_cast<double>(device::inspect().memory_bytes);
    const Prepared prepared = prepare(request, options, /*dry=*/true);
    EXPECT_TRUE(prepared.train->kept());
    EXPECT_EQ(prepared.validation->kept(), sets > 2);
    const testing::Matcher<std::vector<std::string>> told =
        testing::Contains(HasSubstr("every validation decodes all held-out images again"));
    EXPECT_THAT(prepared.notes, sets > 2 ? testing::Not(told) : told);
  }
}

TEST(Prepare, RandomCropNeedsLargerImages) {
  const auto refusal = [](const char* resize_to) -> std::string {
    try {
      prepared_with(options_with("random-crop", resize_to));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal(""), HasSubstr("there is no --resize-to"));
  EXPECT_THAT(refusal("7x16"), HasSubstr("cannot cut an image of 8x9 out of one of 7x16"));
}

std::string refusal_of(const TrainingRequest& request) {
  try {
    prepare(request, options_with("none", ""), /*dry=*/true);
  } catch (const Error& error) {
    return error.hint().empty() ? "no hint" : error.message();
  }
  return "";
}

TEST(Prepare, SaysThatThereAreNoDataOrTooFewClasses) {
  const auto slopes = [](std::vector<std::string> classes) {
    return data::Dataset(std::make_shared<PreparedSlopes>(std::move(classes), 1));
  };
  TrainingRequest request;
  EXPECT_EQ(refusal_of(request), "the dataset is empty");
  request.dataset = slopes({"even", "odd"}).subset({});
  EXPECT_EQ(refusal_of(request), "the dataset is empty");
  request.dataset = slopes({});
  EXPECT_EQ(refusal_of(request), "the training data have 0 classes; a classifier needs two or more");
  request.dataset = slopes({"all"});
  EXPECT_EQ(refusal_of(request), "the training data have 1 class; a classifier needs two or more");
}

TEST(Prepare, SaysWhyARunOnFewSamplesHasNoAccuracy) {
  TrainingRequest request;
  request.dataset = data::Dataset(std::make_shared<PreparedSlopes>());
  const auto told = testing::Contains(HasSubstr("the run has no accuracy; --validation names samples"));
  EXPECT_THAT(prepare(request, options_with("none", ""), /*dry=*/true).plan.warnings, testing::Not(told));
  request.dataset = request.dataset.subset({0, 1});
  EXPECT_THAT(prepare(request, options_with("none", ""), /*dry=*/true).plan.warnings, told);
}

// Minus one stands for auto nowhere: a sign that slipped in would start a test of rates.
TEST(Prepare, ALearningRateIsAutoOnlyByItsName) {
  Options options = options_with("none", "");
  options.learning_rate = LearningRate::automatic();
  EXPECT_TRUE(options.learning_rate.is_auto());
  EXPECT_EQ(field_text(options, "learning-rate"), "auto");
  EXPECT_NO_THROW(check_values(options));
  for (const double rate : {-1.0, -0.1}) {
    options.learning_rate = rate;
    EXPECT_FALSE(options.learning_rate.is_auto());
    EXPECT_THROW(check_values(options), Error) << rate;
  }
}

TEST(Prepare, ThePlanShortensAndMasksNamesOfClasses) {
  TrainingRequest request;
  request.dataset = data::Dataset(std::make_shared<PreparedSlopes>(
      std::vector<std::string>{std::string(100, 'x'), "red\x1b[31m"}, /*label_of_17=*/1));
  const Prepared prepared = prepare(request, options_with("none", ""), /*dry=*/true);
  const auto line = std::find_if(prepared.plan.lines.begin(), prepared.plan.lines.end(),
                                 [](const PlanLine& one) { return one.name == "per class"; });
  ASSERT_NE(line, prepared.plan.lines.end());
  EXPECT_THAT(line->reason, HasSubstr(std::string(19, 'x') + "… "));
  EXPECT_EQ(line->reason.find('\x1b'), std::string::npos);
}

TEST(Prepare, ThePlanSaysWhyShardsAreComputedAlone) {
  const auto reason_with = [](const std::function<void(Plan&)>& change) {
    Plan plan;
    plan.network.sums_shards = true;
    plan.network.learned_count = 1'000'000;
    plan.step.mini_batch_size = 128;
    plan.step.shards = 4;
    change(plan);
    return step_lines(plan, {}).front().reason;
  };
  const auto is_silent = testing::Not(HasSubstr("each shard alone"));
  EXPECT_THAT(reason_with([](Plan&) {}), is_silent) << "two shards of 32 samples are one batch";
  EXPECT_THAT(reason_with([](Plan& plan) { plan.step.mini_batch_size = 132; }),
              HasSubstr("each shard alone, because 33 samples are enough for one batch: 3 additions of "));
  EXPECT_THAT(reason_with([](Plan& plan) { plan.record.detect_anomaly = true; }),
              HasSubstr("each shard alone, because of --detect-anomaly: 3 additions of "));
  const auto on_gpu = [](Plan& plan) { plan.machine.device = "cuda"; };
  EXPECT_THAT(reason_with(on_gpu), HasSubstr("each shard alone, because of the GPU: 3 additions of "));
  EXPECT_THAT(reason_with([&](Plan& plan) {
                on_gpu(plan);
                plan.machine.side_by_side = true;
              }),
              is_silent);
}

TEST(Prepare, RefusesLabelsThatAreNoClasses) {
  const auto slopes = [](int64_t label) {
    return data::Dataset(std::make_shared<PreparedSlopes>(std::vector<std::string>{"even", "odd"}, label));
  };
  TrainingRequest request;
  for (const int64_t label : {2, -2, -5}) {
    request.dataset = slopes(label);
    EXPECT_EQ(refusal_of(request), "sample 17 (\"#17\") has label " + std::to_string(label) +
                                       ", but there are 2 classes (0 to 1)");
  }
  request.dataset = slopes(-1);
  EXPECT_EQ(refusal_of(request), "");
  Options skipping = options_with("none", "");
  skipping.on_bad_sample = data::OnBadSample::skip;
  EXPECT_EQ(prepare(request, skipping, /*dry=*/false).plan.data.class_counts.size(), 2u);
  request.test = slopes(2);
  EXPECT_THAT(refusal_of(request), HasSubstr("sample 17 of the test data (\"#17\") has label 2"));
  request.validation = slopes(2);
  EXPECT_THAT(refusal_of(request), HasSubstr("sample 17 of the validation data (\"#17\") has label 2"));
}

}  // namespace
}  // namespace lockstep::train
