// Resizing and colours: Pillow's numbers, and the same ones for every instruction set.
#include "lockstep/data/transform.h"

#include <array>
#include <cstdlib>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/seed.h"
#include "lockstep/data/internal/resample_kernels.h"
#include "lockstep/data/test_pattern.h"
#include "lockstep/device/isa.h"

namespace lockstep::data {
namespace {

using test::pattern;

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
