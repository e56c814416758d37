#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/test_limit.h"
#include "lockstep/data/internal/formats.h"
#include "lockstep/data/test_decode.h"

namespace lockstep::data {
namespace {

using test::decoded;
using test::failure;
using testing::ElementsAre;

// A colour image whose bytes count up from 0 in the file, not compressed. Blocks are strips, or tiles where
// they have a width.
struct Tiff {
  uint32_t width = 0, height = 0;
  uint16_t samples = 3, bits = 8;
  uint32_t block_height = 0, block_width = 0;
  bool in_planes = false;
  uint16_t kind = 2;    // PhotometricInterpretation
  uint16_t extra = 0;   // the fourth sample; 2: alpha that is not multiplied into the colours
  uint16_t format = 1;  // SampleFormat of one sample; 4: undefined

  int64_t pixels() const { return int64_t{width} * height; }
  int64_t pixel_bytes() const { return samples * bits / 8; }
  int64_t block_bytes() const {
    return int64_t{block_height} * (block_width == 0 ? width : block_width) * pixel_bytes() /
           (in_planes ? samples : 1);
  }

  static std::string little(uint32_t value, size_t bytes) {
    std::string text;
    for (size_t i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> (8 * i)));
    return text;
  }

  std::string file() const {
    const auto parts = [](uint32_t whole, uint32_t part) { return (whole + part - 1) / part; };
    const bool tiles = block_width != 0;
    const uint32_t blocks =
        parts(height, block_height) * (tiles ? parts(width, block_width) : 1) * (in_planes ? samples : 1);
    constexpr uint32_t kShort = 3, kLong = 4;
    const uint32_t tags = (tiles ? 10 : 9) + (extra != 0 ? 1 : 0) + (format != 1 ? 1 : 0),
                   depths = 8 + 2 + tags * 12 + 4, offsets = depths + samples * 2U,
                   counts = offsets + blocks * 4, data = counts + blocks * 4;
    std::string text = std::string("II*\0", 4) + little(8, 4) + little(tags, 2);
    const auto tag = [&](uint32_t name, uint32_t type, uint32_t count, uint32_t value) {
      text += little(name, 2) + little(type, 2) + little(count, 4) + little(value, 4);
    };
    const auto list = [&](uint32_t name, uint32_t at, uint32_t only) {
      tag(name, kLong, blocks, blocks == 1 ? only : at);
    };
    const auto bytes = static_cast<uint32_t>(block_bytes());
    tag(256, kLong, 1, width);
    tag(257, kLong, 1, height);
    tag(258, kShort, samples, samples == 1 ? bits : depths);
    tag(262, kShort, 1, kind);
    if (!tiles) list(273, offsets, data);
    tag(277, kShort, 1, samples);
    if (!tiles) tag(278, kLong, 1, block_height);
    if (!tiles) list(279, counts, bytes);
    tag(284, kShort, 1, in_planes ? 2 : 1);
    if (tiles) tag(322, kLong, 1, block_width);
    if (tiles) tag(323, kLong, 1, block_height);
    if (tiles) list(324, offsets, data);
    if (tiles) list(325, counts, bytes);
    if (extra != 0) tag(338, kShort, 1, extra);
    if (format != 1) tag(339, kShort, 1, format);
    text += little(0, 4);
    for (uint16_t i = 0; i < samples; ++i) text += little(bits, 2);
    for (uint32_t i = 0; i < blocks; ++i) text += little(data + i * bytes, 4);
    for (uint32_t i = 0; i < blocks; ++i) text += little(bytes, 4);
    for (uint32_t i = 0; i < blocks * bytes; ++i) text.push_back(static_cast<char>(i));
    return text;
  }
};

TEST(Tiff, StripsAndTilesOfManySamplesGiveTheFirstThree) {
  const Tiff strips{.width = 6, .height = 5, .samples = 8, .bits = 16, .block_height = 2};
  const Image image = decoded("a.tif", strips.file());
  ASSERT_EQ(image.channels, 3);
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t i = 0; i < 30; ++i)
      EXPECT_EQ(image.pixels[static_cast<size_t>(c * 30 + i)], static_cast<uint8_t>(i * 16 + c * 2 + 1))
          << c << "," << i;
  }
  const Tiff tiles{.width = 20, .height = 5, .samples = 4, .block_height = 16, .block_width = 16};
  const Image tiled = decoded("a.tif", tiles.file());
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t y = 0; y < 5; ++y) {
      for (int64_t x = 0; x < 20; ++x)
        EXPECT_EQ(tiled.pixels[static_cast<size_t>((c * 5 + y) * 20 + x)],
                  static_cast<uint8_t>(x / 16 * 1024 + (y * 16 + x % 16) * 4 + c))
            << c << "," << y << "," << x;
    }
  }
}

// As satellites' images are often stored. Alpha is dropped, not multiplied into the colours.
TEST(Tiff, PlanesGiveTheirSamplesAsStored) {
  const Tiff strips{.width = 6, .height = 5, .bits = 16, .block_height = 2, .in_planes = true};
  const Image image = decoded("a.tif", strips.file());
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t y = 0; y < 5; ++y) {
      for (int64_t x = 0; x < 6; ++x)
        EXPECT_EQ(image.pixels[static_cast<size_t>((c * 5 + y) * 6 + x)],
                  static_cast<uint8_t>((c * 3 + y / 2) * 24 + y % 2 * 12 + x * 2 + 1))
            << c << "," << y << "," << x;
    }
  }
  const Tiff tiles{.width = 20,
                   .height = 5,
                   .samples = 4,
                   .block_height = 16,
                   .block_width = 16,
                   .in_planes = true,
                   .extra = 2};
  const Image tiled = decoded("a.tif", tiles.file());
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t y = 0; y < 5; ++y) {
      for (int64_t x = 0; x < 20; ++x)
        EXPECT_EQ(tiled.pixels[static_cast<size_t>((c * 5 + y) * 20 + x)],
                  static_cast<uint8_t>((c * 2 + x / 16) * 256 + y * 16 + x % 16))
            << c << "," << y << "," << x;
    }
  }
}

TEST(Tiff, UndefinedSamplesAreNumbersAndCielabIsRefused) {
  const Tiff grey{.width = 5, .height = 3, .samples = 1, .block_height = 3, .kind = 1, .format = 4};
  EXPECT_THAT(decoded("a.tif", grey.file()).pixels,
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14));
  const Tiff lab{.width = 5, .height = 3, .block_height = 3, .kind = 8};
  EXPECT_EQ(failure("a.tif", lab.file()),
            "it is a TIFF with CIELAB colours, which are not supported; save it as RGB");
  EXPECT_EQ(failure("a.tif", grey.file().substr(0, 8)),
            "TIFF is damaged (Can not read TIFF directory count)");
}

TEST(Tiff, OtherSamplesAreRefusedWithAHint) {
  const std::string hint = ", which is not supported; convert it to unsigned integers of 8 or 16 bits";
  for (const uint16_t bits : std::array<uint16_t, 3>{10, 12, 14}) {
    const Tiff grey{.width = 8, .height = 3, .samples = 1, .bits = bits, .block_height = 3, .kind = 1};
    EXPECT_EQ(failure("a.tif", grey.file()),
              "it is a TIFF with " + std::to_string(bits) + " bits per sample" + hint);
  }
  const Tiff floats{
      .width = 8, .height = 3, .samples = 1, .bits = 32, .block_height = 3, .kind = 1, .format = 3};
  EXPECT_EQ(failure("a.tif", floats.file()),
            "it is a TIFF with 32 bits per sample (signed or floating point)" + hint);
}

// What a file says of itself decides what reading it takes, and threads wait for one another by that.
TEST(Tiff, TakesNoMoreMemoryThanIsReckoned) {
  const Tiff strip{.width = 1024, .height = 1024, .samples = 8, .bits = 16, .block_height = 1024};
  const Tiff tile{
      .width = 16, .height = 16, .samples = 8, .bits = 16, .block_height = 1024, .block_width = 1024};
  const Tiff planes{.width = 2048, .height = 1024, .block_height = 1024, .in_planes = true};
  const auto size = [](const Tiff& tiff) { return static_cast<int64_t>(tiff.file().size()); };
  const auto tiff_memory = [](const std::string& file) { return open_tiff(file).bytes; };
  EXPECT_EQ(tiff_memory(strip.file()), 16 * strip.pixels() + size(strip))
      << "a strip is decoded in its place";
  EXPECT_EQ(tiff_memory(tile.file()), 16 * tile.pixels() + tile.block_bytes() + size(tile));
  EXPECT_EQ(tiff_memory(planes.file()), 3 * planes.pixels() + size(planes));
  if (lockstep::test::kSanitized) GTEST_SKIP() << "sanitizers take memory of their own";
  constexpr int64_t kRest = 6 << 20;
  for (const Tiff& tiff : {strip, tile, planes}) {
    const std::string file = tiff.file();
    // Samples that are not compressed come straight from the file, or a plane at a time.
    const lockstep::test::AddressSpaceLimit limit(
        static_cast<rlim_t>(tiff_memory(file) - size(tiff) + 3 * tiff.pixels() + kRest));
    EXPECT_EQ(decoded("a.tif", file).height, tiff.height);
  }
}

}  // namespace
}  // namespace lockstep::data
