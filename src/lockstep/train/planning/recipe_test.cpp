#include "lockstep/train/planning/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

struct Sample {
  data::ImageFormat format;
  int64_t count;
  bool drawings = false;
};
constexpr int64_t kClasses = 10;

std::vector<std::string> values_for(const Sample& sample, const Options& options = {},
                                    const std::vector<std::string>& given = {}) {
  // Normalisation is complete before the recipe.
  Options completed = options;
  if (completed.normalize == "auto") completed.normalize = "none";
  std::vector<std::string> texts;
  const RecipeFacts facts{options,      given,    sample.format, sample.count,
                          sample.count, kClasses, false,         sample.drawings};
  for (const RecipeValue& value : recipe_values(facts, completed))
    texts.push_back(value.option + "=" + value.value);
  return texts;
}

std::vector<std::string> names_for(const Sample& sample, const Options& options,
                                   const std::vector<std::string>& given = {}) {
  std::vector<std::string> names = values_for(sample, options, given);
  for (std::string& name : names) name = name.substr(0, name.find('='));
  return names;
}

const Sample kDigits{{1, 28, 28}, 9000, true}, kCifar{{3, 32, 32}, 45'000}, kPhotographs{{3, 128, 128}, 1200},
    kDrawings{{1, 105, 105}, 1080, true}, kGreyPhotographs{{1, 105, 105}, 1080},
    kSequences{{.channels = 6, .height = 1, .width = 300, .kind = data::SampleKind::sequence}, 36};

TEST(Recipe, SmallDrawingsAreShiftedAndNotFlipped) {
  EXPECT_THAT(values_for(kDigits),
              IsSupersetOf({"augment=shift=2", "batch-norm-start=mean", "nesterov=true"}));
  EXPECT_THAT(names_for(kDigits, {}), Not(testing::Contains("network")));
}

// Clothes in grey want a larger network than digits; what may be characters is not flipped.
TEST(Recipe, SmallGreyImagesThatAreNoDrawingsHaveANetworkForPhotographs) {
  EXPECT_THAT(values_for({{1, 28, 28}, 60'000}), IsSupersetOf({"network=resnet9_small", "augment=shift=2"}));
}

TEST(Recipe, FewDrawingsHaveASmallNetworkAndASmallSize) {
  const auto side_of = [](const Sample& sample) {
    const auto smaller = smaller_images(
        {{}, {}, sample.format, sample.count, sample.count, kClasses, false, sample.drawings}, {});
    return smaller ? smaller->value : "";
  };
  EXPECT_THAT(values_for({{1, 48, 48}, 1080, true}),
              IsSupersetOf({"network=resnet9_small", "augment=shift=3"}));
  EXPECT_EQ(side_of(kDrawings), "32x32");
  EXPECT_EQ(side_of({{1, 40, 40}, 1080, true}), "");
  const auto of_smaller =
      recipe_values({{}, {}, {1, 32, 32}, kDrawings.count, kDrawings.count, kClasses, false, true},
                    {.image_size = "32x32"});
  EXPECT_EQ(of_smaller.front().value, "resnet9_small");
  EXPECT_THAT(names_for({kDrawings.format, 50'000, true}, {}),
              Not(testing::AnyOf(testing::Contains("network"), testing::Contains("augment"))));
}

// At 32x32 grey photographs of fruit had 0.76 instead of 0.86 at 64x64.
TEST(Recipe, GreyPhotographsAreTreatedAsThoseInColour) {
  const auto sized = [](const Sample& sample) {
    return smaller_images({{}, {}, sample.format, sample.count, sample.count, kClasses}, {});
  };
  EXPECT_EQ(sized({{1, 348, 348}, 1080})->value, sized({{3, 348, 348}, 1080})->value);
  EXPECT_EQ(values_for(kGreyPhotographs), values_for({{3, 105, 105}, 1080}));
  EXPECT_THAT(values_for({{1, 48, 48}, 1080}), IsSupersetOf({"network=resnet9", "augment=flip,shift=6"}));
}

TEST(Recipe, FewSamplesAreSeenMoreOften) {
  EXPECT_THAT(values_for(kDigits), testing::Contains("max-epochs=9"));
  EXPECT_THAT(values_for({kDigits.format, 1200, true}), testing::Contains("max-epochs=64"));
  EXPECT_THAT(values_for({kDigits.format, 200, true}), testing::Contains("max-epochs=100"));
  EXPECT_THAT(values_for({kPhotographs.format, 54}, {.image_size = "128x128"}),
              testing::Contains("max-epochs=150"));
}

TEST(Recipe, SmallColourImagesHaveTheirNetwork) {
  EXPECT_THAT(values_for(kCifar), IsSupersetOf({"network=resnet9", "augment=flip,shift=4",
                                                "learning-rate=0.05", "max-epochs=10"}));
}

TEST(Recipe, SmallDataHaveSmallMiniBatchesAndTheRateInProportion) {
  EXPECT_THAT(values_for({kDigits.format, 1200, true}),
              IsSupersetOf({"mini-batch-size=32", "learning-rate=0.005"}));
  EXPECT_THAT(values_for(kSequences),
              IsSupersetOf({"mini-batch-size=8", "normalize=mean-std", "optimizer=adam", "gradient-clip=1"}));
}

TEST(Recipe, NoMiniBatchHasASingleSample) {
  EXPECT_THAT(values_for({kCifar.format, 33}), testing::Contains("mini-batch-size=31"));
  EXPECT_THAT(values_for({kCifar.format, 993}), testing::Contains("mini-batch-size=30"));
  EXPECT_THAT(values_for({kCifar.format, 12'801}), testing::Contains("mini-batch-size=127"));
}

TEST(Recipe, SequencesWithOneClassEachHaveConvolutionsOverTime) {
  EXPECT_THAT(values_for(kSequences), testing::Contains("network=conv_classifier"));
  EXPECT_THAT(names_for(kSequences, {.weights = "file"}), Not(testing::Contains("network")));
  EXPECT_THAT(names_for(kSequences, {}, {"network"}), Not(testing::Contains("network")));
}

TEST(Recipe, GivenOptionsHoldAlsoWithTheirDefaults) {
  Options options;
  options.augment = "flip-vertical";
  options.max_epochs = 3;
  EXPECT_THAT(names_for(kCifar, options), Not(testing::Contains("augment")));
  EXPECT_THAT(names_for(kCifar, options), Not(testing::Contains("max-epochs")));
  EXPECT_THAT(names_for(kDigits, {}, {"mini-batch-size", "augment"}),
              Not(testing::AnyOf(testing::Contains("mini-batch-size"), testing::Contains("augment"))));
  EXPECT_THAT(names_for(kSequences, {}, {"normalize"}), Not(testing::Contains("normalize")));
}

TEST(Recipe, AGivenValueOfTheOptimizerReplacesThatValueOnly) {
  Options options;
  options.learning_rate = 0.1;
  EXPECT_THAT(values_for(kSequences, options), IsSupersetOf({"optimizer=adam", "gradient-clip=1"}));
  EXPECT_THAT(values_for(kDigits, options),
              IsSupersetOf({"nesterov=true", "weight-decay=0.0005", "batch-norm-start=mean"}));
  EXPECT_THAT(names_for(kDigits, options),
              testing::AllOf(testing::Contains("warmup-steps"), Not(testing::Contains("learning-rate"))));
}

TEST(Recipe, GivenMomentumIsForAnOptimizerThatHasIt) {
  EXPECT_THAT(names_for(kSequences, {.momentum = 0.8}), Not(testing::Contains("optimizer")));
  EXPECT_THAT(names_for(kDigits, {.momentum = 0}), Not(testing::Contains("nesterov")));
}

TEST(Recipe, NewHeadsAndNetworksWithoutBatchNormsLearnByAdam) {
  Options options;
  options.network = "squeezenet";
  EXPECT_THAT(values_for(kPhotographs, options), IsSupersetOf({"optimizer=adam", "learning-rate=0.001"}));
  options.weights = "file.safetensors";
  options.head = Head::new_;
  options.freeze = "features.*";
  EXPECT_THAT(values_for(kPhotographs, options), testing::Contains("optimizer=adam"));
  EXPECT_THAT(names_for(kPhotographs, options),
              Not(testing::AnyOf(testing::Contains("augment"), testing::Contains("learning-rate"))));
}

TEST(Recipe, FewPhotographsHaveASmallSizeAndItsNetwork) {
  EXPECT_THAT(values_for({{3, 96, 96}, 1200}),
              IsSupersetOf({"network=resnet9", "augment=flip,shift=12", "max-epochs=30"}));
  EXPECT_THAT(names_for(kPhotographs, {.image_size = "128x128"}), Not(testing::Contains("network")));
  EXPECT_THAT(names_for({{3, 96, 96}, 100'000}, {}), Not(testing::Contains("network")));
  EXPECT_THAT(values_for({{3, 128, 64}, 1200}), testing::Contains("network=resnet9"))
      << "as it is not made smaller";
}

TEST(Recipe, FewPhotographsAreMadeSmallerUnlessTheirSizeIsGiven) {
  const Sample large{{3, 348, 348}, 1200};
  const auto smaller = [&](const Options& options, const std::vector<std::string>& given, int64_t count) {
    return smaller_images({options, given, large.format, count, count, kClasses}, options).has_value();
  };
  EXPECT_TRUE(smaller({}, {}, 1200));
  EXPECT_FALSE(smaller({}, {"image-size"}, 1200));
  EXPECT_FALSE(smaller({.image_size = "224x224"}, {}, 1200));
  EXPECT_FALSE(smaller({.weights = "file"}, {}, 1200));
  const auto of_many = smaller_images({{}, {}, large.format, 100'000, 100'000, kClasses}, {});
  EXPECT_EQ(of_many->value, "224x224");
  EXPECT_FALSE(smaller_images({{}, {}, {3, 224, 300}, 100'000, 100'000, kClasses}, {}));
  // The same samples are few or many, whether or not some are held out.
  EXPECT_EQ(recipe_values({{}, {}, {1, 105, 105}, 9'000, 10'000, kClasses, false, true}, {}).front().option,
            "batch-norm-start");
}

TEST(Recipe, BudgetLimitsEpochsAndTheNetwork) {
  // resnet9 takes 95 million multiplications and additions forward, and an epoch of 45,000 images 26 TFLOP.
  EXPECT_THAT(values_for(kCifar, {.budget = 1000}), IsSupersetOf({"network=resnet9", "max-epochs=10"}));
  EXPECT_THAT(values_for(kCifar, {.budget = 10}), IsSupersetOf({"network=resnet9_small", "max-epochs=10"}));
  EXPECT_THAT(values_for(kCifar, {.budget = 2}), IsSupersetOf({"network=resnet9_small", "max-epochs=3"}));
  EXPECT_THAT(names_for(kCifar, {.budget = 0.1}), testing::Contains("max-steps"));
}

}  // namespace
}  // namespace lockstep::train
