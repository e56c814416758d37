#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/data/test_decode.h"
#include "lockstep/data/test_images.h"

namespace lockstep::data {
namespace {

using test::bytes_of;
using test::decoded;
using test::failure;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint32_t kNoRuns = 0, kRuns8 = 1, kRuns4 = 2;

// 5x3, with 16 colours whose levels of red are 10 times their index.
struct Bmp {
  uint32_t bits = 8, compression = kNoRuns;
  std::string pixels{};
  std::optional<uint32_t> offset{};   // none: where the pixels are
  std::optional<uint32_t> colours{};  // the number that the header has; none: that of the palette

  std::string file() const {
    const auto little = [](uint32_t value, size_t bytes) {
      std::string text;
      for (size_t i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> (8 * i)));
      return text;
    };
    constexpr uint32_t kColours = 16, kPixelsAt = 14 + 40 + 4 * kColours;
    std::string text = "BM" + little(kPixelsAt + static_cast<uint32_t>(pixels.size()), 4) + little(0, 4) +
                       little(offset.value_or(kPixelsAt), 4);
    text += little(40, 4) + little(5, 4) + little(3, 4) + little(1, 2) + little(bits, 2) +
            little(compression, 4) + little(0, 12) + little(colours.value_or(kColours), 4) + little(0, 4);
    for (uint32_t i = 0; i < kColours; ++i) text += little(i * 10 << 16 | i, 4);
    return text + pixels;
  }
};

std::vector<int> red_indices(const Image& image) {
  std::vector<int> indices;
  for (size_t i = 0; i < image.pixels.size() / 3; ++i) indices.push_back(image.pixels[i] / 10);
  return indices;
}

const char* const kEights =
    "030102020000"
    "0005030405060700"
    "0000"
    "0208"
    "00020100"
    "0209"
    "0001";
const char* const kFours =
    "05120000"
    "000534567000"
    "0000"
    "0288"
    "00020100"
    "0299"
    "0001";

// Runs, indices as they are, and a jump over one pixel; the lowest row comes first. Pillow reads the same,
// but for an odd count of indices of four bits.
TEST(Bmp, RunsAreRead) {
  const Bmp eights{.compression = kRuns8, .pixels = bytes_of(kEights)};
  EXPECT_THAT(red_indices(decoded("a.bmp", eights.file())),
              ElementsAre(8, 8, 0, 9, 9, 3, 4, 5, 6, 7, 1, 1, 1, 2, 2));
  const Bmp fours{.bits = 4, .compression = kRuns4, .pixels = bytes_of(kFours)};
  EXPECT_THAT(red_indices(decoded("a.bmp", fours.file())),
              ElementsAre(8, 8, 0, 9, 9, 3, 4, 5, 6, 7, 1, 2, 1, 2, 1));
}

TEST(Bmp, DamagedRunsAreRefusedOrCut) {
  const std::string file = Bmp{.compression = kRuns8, .pixels = bytes_of(kEights)}.file();
  for (size_t cut = 1; cut < 10; ++cut) {
    const std::string part = file.substr(0, file.size() - cut);
    EXPECT_EQ(failure("a.bmp", part), "BMP ends at byte " + std::to_string(part.size()));
  }
  const Bmp long_run{.compression = kRuns8, .pixels = bytes_of("ff0100000002ffff")};
  EXPECT_EQ(red_indices(decoded("a.bmp", long_run.file())).size(), 15U) << "nothing is written outside";
  EXPECT_THAT(failure("a.bmp", Bmp{.bits = 4, .compression = kRuns8, .pixels = bytes_of(kEights)}.file()),
              HasSubstr("runs of 4 bits"));
  std::string large = file;
  large.replace(18, 8, std::string("\0\x20\0\0\0\x20\0\0", 8));
  EXPECT_THAT(failure("a.bmp", large), HasSubstr("BMP ends at byte"));
}

const char* const kRows =
    "0102030405000000"
    "0607080900000000"
    "0a0b0c0d0e000000";

// As Pillow does where the offset is that of the palette.
TEST(Bmp, WithoutAnOffsetThePixelsFollowThePalette) {
  const std::string rows = bytes_of(kRows);
  const Image image = decoded("a.bmp", Bmp{.pixels = rows}.file());
  EXPECT_THAT(red_indices(image), ElementsAre(10, 11, 12, 13, 14, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5));
  for (const uint32_t offset : {0U, 14U, 54U})
    EXPECT_EQ(decoded("a.bmp", Bmp{.pixels = rows, .offset = offset}.file()).pixels, image.pixels) << offset;
}

TEST(Bmp, APaletteEndsWhereThePixelsBegin) {
  const std::string rows = bytes_of(kRows);
  const Bmp with{.pixels = rows}, without{.pixels = rows, .colours = 0};
  EXPECT_EQ(decoded("a.bmp", without.file()).pixels, decoded("a.bmp", with.file()).pixels);
}

TEST(Pnm, TextGivesTheSameAsBinary) {
  const Image grey = decoded("a.pgm", "P5 3 2 255\n" + bytes_of("0001646566ff"));
  EXPECT_EQ(decoded("a.pgm", "P2\n# by hand\n3 2\n255\n0 1 100\n101\t102 # white\n255").pixels, grey.pixels);
  const Image colour = decoded("a.ppm", "P6 1 2 100\n" + bytes_of("00320a645a01"));
  EXPECT_EQ(decoded("a.ppm", "P3 1 2 100\n0 50 10\n100 90 1\n").pixels, colour.pixels);
  EXPECT_EQ(colour.channels, 3);
  EXPECT_THAT(decoded("a.pgm", "P2 2 1 65535 0 65535\n").pixels, ElementsAre(0, 255));
}

TEST(Pnm, BitsAreBlackOrWhite) {
  EXPECT_THAT(decoded("a.pbm", "P1\n3 2\n101\n0 1#\n0").pixels, ElementsAre(0, 255, 0, 255, 0, 255));
  EXPECT_THAT(decoded("a.pnm", "P4 9 2\n" + bytes_of("80807f00")).pixels,
              ElementsAre(0, 255, 255, 255, 255, 255, 255, 255, 0, 255, 0, 0, 0, 0, 0, 0, 0, 255));
}

TEST(Pnm, SaysWhatIsWrong) {
  EXPECT_EQ(failure("a.pgm", "P2 3 2 255 0 1 2 3 4   "), "PPM ends at byte 23");
  EXPECT_EQ(failure("a.pgm", "P2 20000 6000 255 0 1 2"), "PPM ends at byte 23");
  EXPECT_EQ(failure("a.pgm", "P2 3 1 255 0 -1 2222"), "PPM is damaged (a number is missing)");
  EXPECT_EQ(failure("a.pnm", "P1 3 1 012"), "PPM is damaged (a bit is neither 0 nor 1)");
  EXPECT_THAT(failure("a.pnm", "P7\nWIDTH 3\n"), HasSubstr("P7 (PAM), which is not supported"));
}

}  // namespace
}  // namespace lockstep::data
