#include "lockstep/data/transform.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/seed.h"
#include "lockstep/data/internal/resample_kernels.h"
#include "lockstep/data/test_images.h"
#include "lockstep/device/isa.h"

namespace lockstep::data {
namespace {

// What Pillow's resize, ImageOps.fit, ImageOps.pad and convert("L") make of the pattern, BILINEAR.
constexpr std::array<uint8_t, 63> kShrunk{
    92,  116, 116, 112, 138, 111, 120, 130, 121, 122, 94,  160, 118, 130, 143, 134, 126, 150, 170, 136, 148,
    113, 126, 153, 159, 145, 132, 131, 114, 110, 136, 138, 139, 106, 101, 141, 135, 122, 117, 150, 129, 107,
    130, 111, 149, 96,  117, 119, 121, 122, 128, 142, 138, 135, 113, 83,  136, 171, 132, 119, 110, 89,  89};
constexpr std::array<uint8_t, 77> kGrown{
    0,   12,  42,  72,  102, 132, 162, 192, 129, 43,  8,   43,  52,  75,  93,  93,  93,  116, 138, 116,
    83,  69,  111, 116, 127, 126, 78,  30,  41,  52,  96,  147, 168, 180, 167, 135, 102, 70,  37,  63,
    89,  110, 130, 138, 230, 203, 136, 80,  71,  62,  103, 143, 129, 101, 90,  153, 148, 135, 126, 136,
    146, 174, 203, 148, 72,  42,  104, 113, 134, 155, 177, 198, 219, 241, 160, 54,  12};
constexpr std::array<uint8_t, 48> kCropped{127, 117, 114, 91,  164, 117, 115, 135, 86,  112, 176, 144,
                                           148, 131, 151, 163, 170, 160, 144, 130, 176, 136, 133, 127,
                                           143, 120, 120, 143, 143, 137, 124, 148, 103, 95,  127, 152,
                                           140, 145, 143, 101, 135, 127, 192, 114, 131, 120, 127, 74};
constexpr std::array<uint8_t, 64> kPadded{0,   0,   0,   0,   0,   0,   0,   0,   104, 115, 125, 106, 110,
                                          154, 104, 125, 141, 129, 129, 122, 148, 169, 122, 148, 117, 112,
                                          144, 159, 139, 147, 118, 122, 132, 116, 136, 120, 128, 152, 107,
                                          107, 131, 117, 144, 126, 95,  145, 106, 110, 130, 142, 157, 127,
                                          123, 117, 104, 80,  0,   0,   0,   0,   0,   0,   0,   0};
constexpr std::array<uint8_t, 15> kGreyed{43, 109, 175, 212, 51, 163, 184, 65,
                                          86, 194, 104, 119, 95, 187, 139};
constexpr std::array<uint8_t, 36> kColourShrunk{123, 123, 140, 128, 123, 134, 137, 119, 132, 133, 121, 105,
                                                138, 127, 126, 126, 146, 130, 113, 124, 141, 134, 113, 123,
                                                131, 129, 127, 116, 123, 130, 133, 120, 126, 134, 144, 147};

Image pattern(int64_t channels, int64_t height, int64_t width) {
  Image image{channels, height, width, {}};
  for (int c = 0; c < channels; ++c) {
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) image.pixels.push_back(static_cast<uint8_t>(test::level(x, y, c)));
    }
  }
  return image;
}

template <size_t count>
void expect_within_one_level(const Image& image, const std::array<uint8_t, count>& expected) {
  ASSERT_EQ(image.pixels.size(), count);
  for (size_t i = 0; i < count; ++i) EXPECT_LE(std::abs(image.pixels[i] - expected[i]), 1) << "at " << i;
}

TEST(Resize, EqualsPillow) {
  expect_within_one_level(to_format(pattern(1, 17, 23), {1, 9, 7, Resize::stretch}), kShrunk);
  expect_within_one_level(to_format(pattern(1, 4, 5), {1, 7, 11, Resize::stretch}), kGrown);
  expect_within_one_level(to_format(pattern(1, 17, 23), {1, 8, 6, Resize::crop}), kCropped);
  expect_within_one_level(to_format(pattern(1, 17, 23), {1, 8, 8, Resize::pad}), kPadded);
  expect_within_one_level(to_format(pattern(3, 17, 23), {3, 3, 4, Resize::stretch}), kColourShrunk);
}

TEST(Resize, AFittingImageIsUnchanged) {
  for (const Resize resize : {Resize::stretch, Resize::crop, Resize::pad}) {
    EXPECT_EQ(to_format(pattern(3, 17, 23), {3, 17, 23, resize}).pixels, pattern(3, 17, 23).pixels);
  }
}

TEST(Resize, ExtremeShapesGiveTheWantedSize) {
  for (const Resize resize : {Resize::stretch, Resize::crop, Resize::pad}) {
    EXPECT_EQ(to_format(pattern(1, 1, 3000), {1, 28, 28, resize}).pixels.size(), 784u);
    EXPECT_EQ(to_format(pattern(1, 3000, 1), {1, 28, 28, resize}).pixels.size(), 784u);
    EXPECT_EQ(to_format(pattern(1, 1, 1), {1, 28, 28, resize}).pixels, std::vector<uint8_t>(784, 0));
    EXPECT_EQ(to_format(pattern(1, 28, 28), {1, 1, 1, resize}).pixels.size(), 1u);
  }
}

TEST(Colour, GreyIsPillowsLumaAndColourRepeatsGrey) {
  const Image grey = to_format(pattern(3, 3, 5), {1, 3, 5});
  EXPECT_THAT(grey.pixels, testing::ElementsAreArray(kGreyed));
  const Image colour = to_format(grey, {3, 3, 5});
  for (size_t i = 0; i < 15; ++i) {
    EXPECT_EQ(colour.pixels[i], grey.pixels[i]);
    EXPECT_EQ(colour.pixels[i + 30], grey.pixels[i]);
  }
}

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

TEST(Resize, InterleavedAndPlanarPixelsGiveTheSame) {
  // The odd widths go through every tail.
  for (const int64_t width : {1, 5, 16, 17, 63, 64, 65, 200}) {
    const Image image = pattern(3, 37, width);
    std::vector<uint8_t> together(3 * 20 * 33);
    to_format({3, 37, width}, image.pixels, {3, 20, 33}, together);
    std::vector<uint8_t> woven;
    for (int64_t i = 0; i < 37 * width; ++i) {
      for (int64_t c = 0; c < 3; ++c) woven.push_back(image.pixels[static_cast<size_t>(c * 37 * width + i)]);
    }
    std::vector<uint8_t> apart(together.size());
    to_format(interleaved(woven.data(), {3, 37, width}, 3), {3, 20, 33}, apart);
    EXPECT_EQ(together, apart) << width;
  }
}

// A thread keeps what it prepared for some sizes; those of earlier images must not be taken for others'.
TEST(Resize, ManySizesByTurnsGiveWhatEachGivesAlone) {
  Random random(5);
  for (int i = 0; i < 300; ++i) {
    const auto side = [&] { return static_cast<int64_t>(1 + random.below(6)) * 7; };
    const Image image = pattern(1, side(), side());
    const ImageFormat format{1, side(), side(), static_cast<Resize>(random.below(3))};
    Image alone;
    std::thread([&] { alone = to_format(image, format); }).join();
    EXPECT_EQ(to_format(image, format).pixels, alone.pixels);
  }
}

// What the kernels of one vector unit make of the same bytes.
std::vector<uint8_t> resized_by(const ResampleKernels& kernels, int64_t channels, int64_t width) {
  Random random(static_cast<uint64_t>(width));
  std::vector<uint8_t> source(static_cast<size_t>(13 * width * channels));
  for (uint8_t& level : source) level = static_cast<uint8_t>(random.next());
  std::vector<int32_t> firsts, counts, weights;
  for (int64_t x = 0; x + 2 < width; ++x) {
    firsts.push_back(static_cast<int32_t>(x));
    counts.push_back(3);
    weights.insert(weights.end(), {1 << 20, 1 << 21, 1 << 20});
  }
  const auto positions = static_cast<int64_t>(firsts.size());
  const int64_t row = (positions + 63) / 64 * 64;
  std::vector<uint8_t> transposed(static_cast<size_t>(16 * (width * channels + 16))),
      lanes(static_cast<size_t>(16 * channels * (positions + 16)));
  std::vector<uint8_t> narrow(static_cast<size_t>(channels * 13 * row + 64)),
      mixed(static_cast<size_t>(positions));
  kernels.narrow({.source = source.data(),
                  .source_row = width * channels,
                  .source_pixels = width,
                  .rows = 13,
                  .channels = channels,
                  .destination = narrow.data(),
                  .destination_row = row,
                  .destination_plane = 13 * row,
                  .transposed = transposed.data(),
                  .narrowed = lanes.data()},
                 {firsts.data(), counts.data(), weights.data(), 3, positions});
  kernels.mix(narrow.data(), row, weights.data(), 3, mixed.data(), positions);
  std::vector<uint8_t> colours(narrow.begin(), narrow.begin() + 3 * 13);
  kernels.to_colours(colours.data(), colours.data() + 13, colours.data() + 26, 13);
  narrow.insert(narrow.end(), mixed.begin(), mixed.end());
  narrow.insert(narrow.end(), colours.begin(), colours.end());
  return narrow;
}

TEST(Resize, AllVectorUnitsGiveTheSameLevels) {
  for (const int64_t channels : {1, 3}) {
    for (const int64_t width : {3, 17, 18, 66, 131, 300}) {
      const auto plain = resized_by(plain_resample_kernels(), channels, width);
      if (device::vector_unit() >= device::VectorUnit::avx2) {
        EXPECT_EQ(resized_by(avx2_resample_kernels(), channels, width), plain) << width;
      }
      if (device::vector_unit() >= device::VectorUnit::avx512) {
        EXPECT_EQ(resized_by(avx512_resample_kernels(), channels, width), plain) << width;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::data
