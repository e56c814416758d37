#include "lockstep/data/survey.h"

#include <array>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/data/decode.h"
#include "lockstep/data/sources.h"
#include "lockstep/data/test_folders.h"
#include "lockstep/data/test_images.h"

namespace lockstep::data {
namespace {

using lockstep::test::TemporaryFolder;

const std::string kGreyPng = test::bytes_of(test::kGrey8);

// An image of 60x60 grey levels as a PGM file.
std::string pgm(const std::function<int(int, int)>& level) {
  std::string file = "P5 60 60 255\n";
  for (int y = 0; y < 60; ++y) {
    for (int x = 0; x < 60; ++x) file.push_back(static_cast<char>(level(x, y)));
  }
  return file;
}

TEST(Survey, PicturesInGreyWithThreeChannelsHaveNoColours) {
  const auto have_colours_of = [](const std::function<std::array<int, 3>(int, int)>& colour) {
    std::string file = "P6 60 60 255\n";
    for (int y = 0; y < 60; ++y) {
      for (int x = 0; x < 60; ++x) {
        for (const int level : colour(x, y)) file.push_back(static_cast<char>(level));
      }
    }
    const TemporaryFolder folder;
    folder.write("a/1.ppm", file);
    folder.write("b/bad.png", kGreyPng.substr(0, 20));
    return have_colours(open_source(folder.path()).dataset);
  };
  EXPECT_FALSE(have_colours_of([](int x, int y) { return std::array{x + y, x + y + 3, x + y}; }));
  EXPECT_TRUE(have_colours_of([](int x, int y) {
    return x > 50 && y > 50 ? std::array{200, 30, 30} : std::array{255, 255, 255};
  }));
}

// Every second image is another, as in 1_gray.pgm, 1_rgb.ppm, 2_gray.pgm.
TEST(Survey, ImagesInTurnAreAllSeen) {
  constexpr int kPairs = 2000;
  const TemporaryFolder folder;
  for (int i = 0; i < kPairs; ++i) {
    const std::string name = (i % 2 == 0 ? "a/" : "b/") + std::to_string(10000 + i);
    std::string coloured = "P6 3 2 255\n";
    for (int pixel = 0; pixel < 6; ++pixel) coloured += "\xff\x10\x10";
    folder.write(name + "_gray.ppm", "P6 2 2 255\n" + std::string(12, 'x'));
    folder.write(name + "_rgb.ppm", coloured);
  }
  const Dataset dataset = open_source(folder.path()).dataset;
  EXPECT_TRUE(have_colours(dataset));
  EXPECT_FALSE(survey_sizes(dataset, 1, 500).one_size);
}

TEST(Survey, TellsDrawingsFromPhotographs) {
  const auto are_drawings_of = [](const std::function<int(int, int)>& level) {
    const TemporaryFolder folder;
    folder.write("a/1.pgm", pgm(level));
    folder.write("a/2.pgm", pgm(level));
    folder.write("b/bad.png", kGreyPng.substr(0, 20));
    return are_drawings(open_source(folder.path()).dataset);
  };
  const auto noise = [](int x, int y) { return (x * 37 + y * 91) % 12; };
  // Strokes with soft edges on grey paper; what a camera sees; a bright spot in the dark.
  EXPECT_TRUE(are_drawings_of([&](int x, int y) {
    const int from_stroke = std::abs(x - y / 2 - 15);
    return (from_stroke < 3 ? 20 : from_stroke == 3 ? 120 : 220) + noise(x, y);
  }));
  EXPECT_FALSE(are_drawings_of([&](int x, int y) { return 30 + 3 * x / 2 + y + noise(x, y); }));
  EXPECT_FALSE(are_drawings_of([&](int x, int y) {
    const int distance = (x - 30) * (x - 30) + (y - 30) * (y - 30);
    return std::max(0, 240 - 2 * distance) + noise(x, y);
  }));
}

TEST(Survey, CountsMixedSizesAndPassesOverBadFiles) {
  const TemporaryFolder folder;
  folder.write("a/1.png", kGreyPng);
  folder.write("a/2.png", kGreyPng.substr(0, 20));
  folder.write("b/1.jpg", test::bytes_of(test::kJpegColour));
  folder.write("b/2.png", kGreyPng);
  const SizeSurvey survey = survey_sizes(open_source(folder.path()).dataset, 3);
  EXPECT_EQ(survey.typical, (ImageSize{3, 3, 5}));
  EXPECT_FALSE(survey.one_size);
  EXPECT_TRUE(survey.any_colour);
  EXPECT_TRUE(survey.looked_at_all);
  EXPECT_EQ(survey.unreadable, 1);
  const Dataset bad = open_source(folder.path()).dataset.subset({1});
  EXPECT_THROW(survey_sizes(bad, 1), BadImage);
}

std::string pgm(int64_t height, int64_t width) {
  return "P5\n" + std::to_string(width) + " " + std::to_string(height) + "\n255\n" +
         std::string(static_cast<size_t>(height * width), 'x');
}

TEST(Survey, AFewSmallImagesAmongPhotographsDoNotDecide) {
  const TemporaryFolder folder;
  for (const int64_t side : {300, 310, 320, 330, 340}) {
    folder.write("a/" + std::to_string(side) + ".pgm", pgm(side, side + 1));
    folder.write("b/thumbnail-" + std::to_string(side % 2) + ".pgm", pgm(20, 20));
  }
  const SizeSurvey photographs = survey_sizes(open_source(folder.path()).dataset, 1);
  EXPECT_FALSE(photographs.one_size);
  EXPECT_EQ(default_format(photographs).height, 224);
  EXPECT_EQ(default_format(photographs).width, 224);
}

TEST(Survey, SmallImagesOfMixedSizesGetTheMiddleSize) {
  const TemporaryFolder folder;
  for (const int64_t side : {12, 30, 31, 32, 50})
    folder.write((side < 31 ? "a/" : "b/") + std::to_string(side) + ".pgm", pgm(side, 2 * side - 20));
  const ImageFormat format = default_format(survey_sizes(open_source(folder.path()).dataset, 1));
  EXPECT_EQ(format.height, 31);
  EXPECT_EQ(format.width, 42);
}

TEST(Survey, GreyAndColourImagesOfOneSizeAreOfOneSize) {
  const TemporaryFolder folder;
  folder.write("a/1.pgm", pgm(90, 80));
  folder.write("b/1.ppm", "P6\n80 90\n255\n" + std::string(90 * 80 * 3, 'x'));
  const SizeSurvey survey = survey_sizes(open_source(folder.path()).dataset, 1);
  EXPECT_TRUE(survey.one_size);
  EXPECT_TRUE(survey.any_colour);
  EXPECT_EQ(default_format(survey).height, 90);
}

}  // namespace
}  // namespace lockstep::data
