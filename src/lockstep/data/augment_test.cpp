// Augmentation: its words, and what each of its changes makes of an image.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/data/test_pattern.h"
#include "lockstep/data/transform.h"

namespace lockstep::data {
namespace {

using test::pattern;

TEST(Augment, ReadsItsWords) {
  EXPECT_FALSE(Augment::parse("none").any());
  const Augment augment = Augment::parse("flip,shift=3");
  EXPECT_TRUE(augment.flip);
  EXPECT_FALSE(augment.flip_vertical);
  EXPECT_EQ(augment.shift, 3);
  EXPECT_EQ(Augment::parse("shift").shift, -1);
  const Augment more =
      Augment::parse("random-resized-crop,color-jitter=0.1/0.2/0.3/0.4,random-erasing=0.25,mixup=0.2");
  EXPECT_EQ(more.least_crop, 0.08);
  EXPECT_EQ(more.jitter.saturation, 0.3);
  EXPECT_EQ(more.erase, 0.25);
  EXPECT_EQ(more.mixup, 0.2);
  EXPECT_TRUE(more.crops());
  EXPECT_FALSE(augment.crops());
  EXPECT_TRUE(Augment::parse("random-crop").crops());
  const Augment shaped = Augment::parse("rotation=20,shear,scale=0.5/1,trivial-augment-wide");
  EXPECT_EQ(shaped.shape.rotation, 20);
  EXPECT_EQ(shaped.shape.shear, 10);
  EXPECT_EQ(shaped.shape.least_scale, 0.5);
  EXPECT_EQ(shaped.shape.most_scale, 1);
  EXPECT_TRUE(shaped.trivial);
  EXPECT_TRUE(Augment::parse("scale").any());
  for (const char* bad : {"rotation=0", "rotation=180", "rotation=x", "shear=90", "scale=0/1", "scale=2/1",
                          "scale=1", "scale=1/2/3", "trivial-augment-wide=3"}) {
    EXPECT_THROW(Augment::parse(bad), Error) << bad;
  }
  for (const char* bad :
       {"flop", "shift=", "shift=x", "shift=-1", "shift=99999999", "flip,,shift", "flip=1",
        "random-resized-crop=2", "random-resized-crop=nan", "color-jitter=1/2", "color-jitter=1/1/1/0.6",
        "color-jitter=-1/1/1/0", "random-erasing=0", "mixup=-1", "mixup=inf", "random-crop=4",
        "random-crop,random-resized-crop", "random-resized-crop=0.5,flip,random-crop"}) {
    EXPECT_THROW(Augment::parse(bad), Error) << bad;
  }
  try {
    Augment::parse("flop");
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("did you mean flip?"));
  }
}

TEST(Augment, ShapesAndTrivialAugmentAreDrawnBySeed) {
  const ImageFormat format{3, 24, 20};
  const Image image = pattern(3, 24, 20);
  for (const char* words : {"rotation", "shear=40", "scale=0.5/2", "trivial-augment-wide"}) {
    const Augment augment = Augment::parse(words);
    std::set<std::vector<uint8_t>> outcomes;
    for (uint64_t seed = 0; seed < 64; ++seed) {
      auto once = image.pixels, again = image.pixels;
      augment.apply(once, format, seed);
      augment.apply(again, format, seed);
      EXPECT_EQ(once, again) << words;
      outcomes.insert(once);
    }
    EXPECT_GT(outcomes.size(), 30U) << words;
  }
}

TEST(Augment, IsAPureFunctionOfItsSeedAndDrawsEveryOutcome) {
  const ImageFormat format{3, 5, 7};
  const Image image = pattern(3, 5, 7);
  const Augment flips = Augment::parse("flip");
  int unchanged = 0;
  for (uint64_t seed = 0; seed < 64; ++seed) {
    auto once = image.pixels, again = image.pixels;
    flips.apply(once, format, seed);
    flips.apply(again, format, seed);
    EXPECT_EQ(once, again);
    if (once == image.pixels) {
      ++unchanged;
      continue;
    }
    for (size_t row = 0; row < 15; ++row) {
      for (size_t x = 0; x < 7; ++x) EXPECT_EQ(once[row * 7 + x], image.pixels[row * 7 + 6 - x]);
    }
  }
  EXPECT_GT(unchanged, 10);
  EXPECT_LT(unchanged, 54);
}

TEST(Augment, ShiftMovesAndFillsWithZeros) {
  const ImageFormat format{1, 5, 7};
  const std::vector<uint8_t> ones(35, 1);
  for (const int64_t most : {1, 2, 100}) {
    size_t fewest = 35;
    for (uint64_t seed = 0; seed < 200; ++seed) {
      auto moved = ones;
      Augment{.shift = most}.apply(moved, format, seed);
      fewest = std::min<size_t>(fewest, static_cast<size_t>(std::count(moved.begin(), moved.end(), 1)));
    }
    EXPECT_EQ(fewest, most == 1 ? 4u * 6u : most == 2 ? 3u * 5u : 0u);
  }
}

// One image changed by many seeds, each twice.
std::vector<std::vector<uint8_t>> changed(const Augment& augment, const Image& image, int seeds) {
  const ImageFormat format{image.channels, image.height, image.width};
  std::vector<std::vector<uint8_t>> all;
  for (int seed = 0; seed < seeds; ++seed) {
    auto once = image.pixels, again = image.pixels;
    augment.apply(once, format, static_cast<uint64_t>(seed));
    augment.apply(again, format, static_cast<uint64_t>(seed));
    EXPECT_EQ(once, again);
    all.push_back(once);
  }
  return all;
}

TEST(Augment, ResizedCropShowsAPart) {
  // Level x + 100 in every column: a crop keeps it rising, over a shorter range.
  Image ramp{1, 20, 20, {}};
  for (int i = 0; i < 400; ++i) ramp.pixels.push_back(static_cast<uint8_t>(100 + i % 20));
  int whole = 0;
  for (const auto& image : changed(Augment::parse("random-resized-crop"), ramp, 100)) {
    const std::vector<uint8_t> row(image.begin(), image.begin() + 20);
    EXPECT_TRUE(std::is_sorted(row.begin(), row.end()));
    EXPECT_GE(row.front(), 100);
    EXPECT_LE(row.back(), 119);
    whole += row.back() - row.front() == 19;
  }
  EXPECT_LT(whole, 30);
}

// What `augment` makes of a part of a larger image.
std::vector<uint8_t> part_of_larger(const Augment& augment, const Image& larger, const ImageFormat& format,
                                    uint64_t seed) {
  std::vector<uint8_t> image(static_cast<size_t>(format.size().bytes()));
  augment.apply(larger.pixels, ImageFormat{larger.channels, larger.height, larger.width}, image, format,
                seed);
  return image;
}

// Every pixel has a level of its own, so that the first one of a part says where it was.
Image places(int64_t height, int64_t width) {
  Image image{1, height, width, {}};
  for (int64_t i = 0; i < height * width; ++i) image.pixels.push_back(static_cast<uint8_t>(i));
  return image;
}

TEST(Augment, RandomCropIsAnyPartOfALargerImage) {
  const Image larger = places(9, 12);
  const ImageFormat format{1, 5, 7};
  const Augment augment = Augment::parse("random-crop");
  std::set<std::pair<int, int>> corners;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    const auto image = part_of_larger(augment, larger, format, seed);
    EXPECT_EQ(part_of_larger(augment, larger, format, seed), image);
    const int top = image[0] / 12, left = image[0] % 12;
    corners.insert({top, left});
    for (int y = 0; y < 5; ++y) {
      for (int x = 0; x < 7; ++x) ASSERT_EQ(image[static_cast<size_t>(7 * y + x)], (top + y) * 12 + left + x);
    }
  }
  EXPECT_EQ(corners.size(), 5U * 6);
  EXPECT_EQ(*corners.rbegin(), std::pair(4, 5));
  EXPECT_EQ(part_of_larger(augment, larger, {1, 9, 12}, 1), larger.pixels);
}

TEST(Augment, WithoutACropTheCentreOfALargerImageIsChanged) {
  const Image larger = pattern(3, 9, 12);
  const ImageFormat format{3, 5, 7};
  auto centre = part_of_larger({}, larger, format, 1);
  for (size_t i = 0; i < centre.size(); ++i)
    EXPECT_EQ(centre[i], larger.pixels[i / 35 * 108 + (2 + i % 35 / 7) * 12 + 2 + i % 7]);
  const Augment changes = Augment::parse("flip,shift=2,color-jitter,random-erasing");
  const auto changed_part = part_of_larger(changes, larger, format, 3);
  changes.apply(centre, format, 3);
  EXPECT_EQ(changed_part, centre);
}

TEST(Augment, APartDoesNotDependOnTheOtherChanges) {
  const Image larger = places(9, 12);
  const ImageFormat format{1, 5, 7};
  int mirrored = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    auto plain = part_of_larger(Augment::parse("random-crop"), larger, format, seed);
    const auto flipped = part_of_larger(Augment::parse("random-crop,flip"), larger, format, seed);
    if (flipped == plain) continue;
    ++mirrored;
    for (auto row = plain.begin(); row != plain.end(); row += 7) std::reverse(row, row + 7);
    EXPECT_EQ(flipped, plain);
  }
  EXPECT_GT(mirrored, 10);
}

TEST(Augment, ResizedCropOfALargerImageShowsWhatTheCentreLacks) {
  // Level x + 100 in every column of 40; the centre has those from 115 to 124.
  Image ramp{1, 20, 40, {}};
  for (int i = 0; i < 800; ++i) ramp.pixels.push_back(static_cast<uint8_t>(100 + i % 40));
  const ImageFormat format{1, 10, 10};
  int lowest = 255, highest = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const auto image = part_of_larger(Augment::parse("random-resized-crop"), ramp, format, seed);
    EXPECT_TRUE(std::is_sorted(image.begin(), image.begin() + 10));
    lowest = std::min<int>(lowest, image.front());
    highest = std::max<int>(highest, image[9]);
  }
  EXPECT_GE(lowest, 100);
  EXPECT_LT(lowest, 115);
  EXPECT_LE(highest, 139);
  EXPECT_GT(highest, 124);
  // No part of the whole area is of 4:3, so the middle is: 27 columns from the sixth on.
  const auto whole = part_of_larger(Augment::parse("random-resized-crop=1"), ramp, format, 1);
  EXPECT_EQ(part_of_larger(Augment::parse("random-resized-crop=1"), ramp, format, 2), whole);
  EXPECT_GE(whole.front(), 106);
  EXPECT_LE(whole[9], 132);
  EXPECT_GT(whole[9] - whole[0], 20);
}

TEST(Augment, ErasingClearsARectangle) {
  const Image ones{3, 10, 12, std::vector<uint8_t>(360, 1)};
  int erased = 0;
  for (const auto& image : changed(Augment::parse("random-erasing=0.5"), ones, 200)) {
    const auto zeros = std::count(image.begin(), image.end(), 0);
    EXPECT_EQ(zeros % 3, 0);
    EXPECT_LE(zeros, 3 * 60);
    erased += zeros > 0;
  }
  EXPECT_GT(erased, 60);
  EXPECT_LT(erased, 140);
}

TEST(Augment, JitterChangesWhatItNames) {
  const Image image = pattern(3, 6, 7);
  for (const auto& changed_image : changed(Augment::parse("color-jitter=0.5/0/0/0"), image, 20)) {
    // Brightness is one factor for all levels that stay under 255.
    for (size_t i = 0; i < changed_image.size(); ++i) {
      for (size_t j = 0; j < changed_image.size(); ++j)
        EXPECT_TRUE(image.pixels[i] > image.pixels[j] || changed_image[i] <= changed_image[j]);
    }
  }
  for (const auto& changed_image : changed(Augment::parse("color-jitter=0/0/0/0.5"), image, 20)) {
    // A rotated hue keeps each pixel's largest and smallest level, but for rounding.
    for (size_t i = 0; i < 42; ++i) {
      const auto range = [&](const std::vector<uint8_t>& pixels) {
        return std::minmax({int{pixels[i]}, int{pixels[i + 42]}, int{pixels[i + 84]}});
      };
      EXPECT_NEAR(range(changed_image).first, range(image.pixels).first, 1);
      EXPECT_NEAR(range(changed_image).second, range(image.pixels).second, 1);
    }
  }
  const Image grey = pattern(1, 6, 7);
  EXPECT_EQ(changed(Augment::parse("color-jitter=0/0/1/0.5"), grey, 3)[0], grey.pixels);
}

TEST(Augment, MixupDrawsSharesOfBothKinds) {
  const Augment augment = Augment::parse("mixup=0.2");
  int64_t sum = 0, extreme = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const Mix mix = augment.draw_mix(10, seed);
    EXPECT_GE(mix.other, 0);
    EXPECT_LT(mix.other, 10);
    ASSERT_GE(mix.share, 0);
    ASSERT_LE(mix.share, 256);
    sum += mix.share;
    extreme += mix.share < 26 || mix.share > 230;
  }
  // Beta(0.2, 0.2) has mean 0.5 and 0.66 of its weight under 0.1 or above 0.9.
  EXPECT_NEAR(static_cast<double>(sum) / 2000 / 256, 0.5, 0.04);
  EXPECT_NEAR(static_cast<double>(extreme) / 2000, 0.66, 0.05);
  std::vector<uint8_t> image{0, 100, 255};
  mix_in(image, std::vector<uint8_t>{255, 200, 255}, 64);
  EXPECT_THAT(image, testing::ElementsAre(191, 175, 255));
}

}  // namespace
}  // namespace lockstep::data
