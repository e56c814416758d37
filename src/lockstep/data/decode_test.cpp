#include "lockstep/data/decode.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "lockstep/base/file.h"
#include "lockstep/base/seed.h"
#include "lockstep/base/test_limit.h"
#include "lockstep/data/internal/formats.h"
#include "lockstep/data/internal/memory_gate.h"
#include "lockstep/data/test_decode.h"
#include "lockstep/data/test_folders.h"
#include "lockstep/data/test_images.h"

namespace lockstep::data {
namespace {

using test::bytes_of;
using test::decoded;
using test::failure;
using test::level;
using testing::HasSubstr;

void expect_levels(const Image& image, int64_t channels,
                   const std::function<int(int x, int y, int c)>& expected) {
  ASSERT_EQ(image.channels, channels);
  ASSERT_EQ(image.height, 3);
  ASSERT_EQ(image.width, 5);
  size_t i = 0;
  for (int c = 0; c < channels; ++c) {
    for (int y = 0; y < 3; ++y) {
      for (int x = 0; x < 5; ++x)
        EXPECT_EQ(image.pixels[i++], expected(x, y, c)) << x << "," << y << "," << c;
    }
  }
}

TEST(Png, EveryKindGivesTheSameImage) {
  for (const std::string_view grey :
       {test::kGrey8, test::kGreyAlpha8, test::kGrey16, test::kGreyAlpha16, test::kInterlaced}) {
    expect_levels(decoded("a.png", bytes_of(grey)), 1, [](int x, int y, int) { return level(x, y); });
  }
  for (const std::string_view colour :
       {test::kColour8, test::kColourAlpha8, test::kColour16, test::kPalette8, test::kPalette4}) {
    expect_levels(decoded("a.PNG", bytes_of(colour)), 3, level);
  }
  expect_levels(decoded("a.png", bytes_of(test::kGrey1)), 1,
                [](int x, int y, int) { return ((x + y) & 1) * 255; });
  expect_levels(decoded("a.png", bytes_of(test::kGrey2)), 1,
                [](int x, int y, int) { return ((x + y) & 3) * 85; });
}

std::string png_chunk(const std::string& kind, const std::string& content) {
  const auto big = [](uint32_t value) {
    std::string bytes;
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(value >> shift));
    return bytes;
  };
  const std::string summed = kind + content;
  const auto sum = crc32(0, reinterpret_cast<const Bytef*>(summed.data()), static_cast<uInt>(summed.size()));
  return big(static_cast<uint32_t>(content.size())) + summed + big(static_cast<uint32_t>(sum));
}

// As exiftool writes it.
TEST(Png, ExifCountsAfterThePixelsToo) {
  const std::string png = bytes_of(test::kGrey8);
  const std::string exif =
      png_chunk("eXIf", bytes_of("4d4d002a00000008000101120003000000010006000000000000"));
  std::string after = png, before = png;
  after.insert(png.size() - 12, exif);
  before.insert(33, exif);
  const Image image = decoded("a.png", after);
  EXPECT_EQ(image.height, 5);
  EXPECT_EQ(image.width, 3);
  EXPECT_EQ(image.pixels[0], level(0, 2)) << "the lower left corner is turned to the top";
  EXPECT_EQ(image.pixels, decoded("a.png", before).pixels);
}

TEST(Png, MayHaveAnyNumberOfTexts) {
  std::string texts;
  for (int i = 0; i < 1200; ++i)
    texts += png_chunk("tEXt", "note" + std::string(1, '\0') + std::to_string(i));
  for (const std::string_view kind : {test::kGrey8, test::kPalette8}) {
    const std::string png = bytes_of(kind);
    std::string noted = png;
    noted.insert(33, texts);
    EXPECT_EQ(decoded("a.png", noted).pixels, decoded("a.png", png).pixels);
    EXPECT_EQ(failure("a.png", noted.substr(0, 100)), "PNG ends at byte 100");
  }
}

void expect_corners(const Image& image, const std::vector<std::array<int, 3>>& corners, int tolerance) {
  ASSERT_EQ(image.height, 16);
  ASSERT_EQ(image.width, 16);
  const std::array<size_t, 4> places{0, 15, 15 * 16, 255};
  for (size_t i = 0; i < 4; ++i) {
    for (size_t c = 0; c < static_cast<size_t>(image.channels); ++c)
      EXPECT_NEAR(image.pixels[c * 256 + places[i]], corners[i][c], tolerance);
  }
}

TEST(Jpeg, EveryKindGivesWhatPillowGives) {
  const std::vector<std::array<int, 3>> colour{{1, 1, 1}, {230, 7, 113}, {9, 232, 126}, {239, 239, 239}};
  EXPECT_EQ(decoded("a.jpg", bytes_of(test::kJpegColour)).channels, 3);
  expect_corners(decoded("a.jpg", bytes_of(test::kJpegColour)), colour, 1);
  expect_corners(decoded("a.JPEG", bytes_of(test::kJpegProgressive)), colour, 1);
  EXPECT_EQ(decoded("a.jpg", bytes_of(test::kJpegGrey)).channels, 1);
  expect_corners(decoded("a.jpg", bytes_of(test::kJpegGrey)), {{1}, {86}, {153}, {239}}, 1);
  expect_corners(decoded("a.jpg", bytes_of(test::kJpegInk)),
                 {{3, 1, 2}, {237, 1, 119}, {3, 238, 121}, {237, 238, 238}}, 2);
}

// Programs differ in whether they write Adobe's marker, but all write ink inverted.
TEST(Jpeg, InkNeedsNoMarker) {
  std::string ink = bytes_of(test::kJpegInk);
  const Image marked = decoded("a.jpg", ink);
  const size_t marker = ink.find("\xff\xee");
  ASSERT_NE(marker, std::string::npos);
  ink.erase(marker, 2 + big_endian(std::string_view(ink).substr(marker + 2, 2)));
  EXPECT_EQ(decoded("a.jpg", ink).pixels, marked.pixels);
}

TEST(Decode, TheContentSaysWhatTheFormatIs) {
  const std::string png = bytes_of(test::kGrey8), jpeg = bytes_of(test::kJpegColour);
  EXPECT_EQ(decoded("a.png", jpeg).pixels, decoded("a.jpg", jpeg).pixels);
  EXPECT_EQ(decoded("a.jpeg", png).pixels, decoded("a.png", png).pixels);
  EXPECT_EQ(image_size_of("a.bmp", window_of(png)), (ImageSize{1, 3, 5}));
}

TEST(Decode, SaysWhatIsWrong) {
  const std::string png = bytes_of(test::kGrey8), jpeg = bytes_of(test::kJpegColour);
  EXPECT_EQ(failure("a.png", ""), "the file is empty");
  EXPECT_EQ(failure("a.jpg", "GIF89a...."), "it is not a JPEG, but a GIF");
  EXPECT_EQ(failure("a.png", "version https://git-lfs.github.com/spec/v1\noid sha256:00"),
            "it is not a PNG, but a pointer of Git LFS; run git lfs pull");
  EXPECT_EQ(failure("a.jpg", bytes_of("0000001c") + "ftypavif...."), "it is not a JPEG, but an AVIF");
  EXPECT_EQ(failure("a.jpg", "hello, world"), "it is not a JPEG");
  EXPECT_EQ(failure("a.png", png.substr(0, 50)), "PNG ends at byte 50");
  EXPECT_EQ(failure("a.png", png.substr(0, 20)), "PNG ends at byte 20");
  EXPECT_EQ(failure("a.jpg", jpeg.substr(0, 200)), "JPEG ends at byte 200");
  EXPECT_EQ(failure("a.jpg", jpeg.substr(0, 5)), "JPEG ends at byte 5");
  std::string flipped = png;
  flipped[45] = static_cast<char>(flipped[45] ^ 0x40);
  EXPECT_THAT(failure("a.png", flipped), HasSubstr("PNG is damaged"));
}

// An image whose header promises far more than its bytes can hold takes no memory.
TEST(Decode, RefusesWhatSoFewBytesCannotHold) {
  std::string jpeg = bytes_of(test::kJpegColour);
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\x20\x00\x20\x00", 4);
  EXPECT_THAT(failure("a.jpg", jpeg), HasSubstr("JPEG ends at byte"));
  jpeg.replace(frame + 5, 4, "\xff\xff\xff\xff", 4);
  EXPECT_THAT(failure("a.jpg", jpeg), HasSubstr("65535x65535 pixels, more than the"));
  std::string png = bytes_of(test::kGrey8);
  png.replace(16, 8, std::string("\x00\x00\x20\x00\x00\x00\x20\x00", 8));
  EXPECT_THAT(failure("a.png", png), HasSubstr("PNG ends at byte"));
  png.replace(16, 8, std::string("\x00\x00\x00\x00\x00\x00\x20\x00", 8));
  EXPECT_THAT(failure("a.png", png), HasSubstr("no pixels"));
  const std::string side("\x07\xfc\xa7\x00", 4), one("\x00\x00\x00\x01", 4);  // 133,998,336 and 1 pixels
  for (const std::string& size : {side + one, one + side}) {
    png.replace(16, 8, size);
    EXPECT_THAT(failure("a.png", png), HasSubstr("pixels, but a side may have at most 1,048,576"));
  }
}

TEST(MemoryGate, LetsInWhatItsBudgetHoldsAndMoreThanThatAlone) {
  MemoryGate gate(100);
  std::atomic<int64_t> taken{0};
  std::vector<std::jthread> threads;
  for (const int64_t bytes : {30, 40, 60, 100, 250, 30}) {
    threads.emplace_back([&, bytes] {
      for (int round = 0; round < 200; ++round) {
        const MemoryPass pass(gate, bytes);
        const int64_t together = taken += bytes;
        EXPECT_TRUE(together <= 100 || together == bytes) << together;
        std::this_thread::yield();
        taken -= bytes;
      }
    });
  }
}

TEST(MemoryGate, SeveralAreInAtOnceAndAnExceptionGivesBack) {
  MemoryGate gate(100);
  const auto fail = [&] {
    const MemoryPass pass(gate, 100);
    throw DecodeError("it is torn");
  };
  EXPECT_THROW(fail(), DecodeError);
  const MemoryPass one(gate, 50);
  std::jthread([&] { const MemoryPass other(gate, 50); }).join();
}

// More than two million pixels, of which each level is a seventeenth.
TEST(Decode, LargeImagesOfSeveralThreadsAreThoseOfOne) {
  constexpr int64_t kHeight = 1300, kWidth = 1700;
  std::string file = "P5 1700 1300 15\n";
  for (int64_t i = 0; i < kHeight * kWidth; ++i) file.push_back(static_cast<char>((i * 7 + i / kWidth) % 16));
  const std::vector<uint8_t> expected = [&] {
    std::vector<uint8_t> levels(file.end() - kHeight * kWidth, file.end());
    for (uint8_t& level : levels) level = static_cast<uint8_t>(level * 17);
    return levels;
  }();
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      EXPECT_TRUE(std::ranges::equal(decoded("a.pgm", file).pixels, expected));
      EXPECT_EQ(failure("a.pgm", file.substr(0, 1000)), "PPM ends at byte 1000");
      EXPECT_TRUE(std::ranges::equal(decoded("a.pgm", file).pixels, expected));
    });
  }
}

TEST(StoredSize, AgreesWithDecodingAndReadsOverLargeSegments) {
  const lockstep::test::TemporaryFolder folder;
  std::string jpeg = bytes_of(test::kJpegGrey);
  const std::string comment = std::string("\xff\xfe\xff\xff", 4) + std::string(65533, 'x');
  jpeg.insert(2, comment + comment);
  for (const auto& [name, file] : {std::pair{"a.jpg", jpeg}, std::pair{"b.jpg", bytes_of(test::kJpegInk)},
                                   std::pair{"c.png", bytes_of(test::kPalette4)}}) {
    const Image image = decoded(name, file);
    EXPECT_EQ(stored_size(folder.write(name, file).string()),
              (ImageSize{image.channels, image.height, image.width}));
  }
  EXPECT_EQ(stored_size(folder.write("d.png", jpeg).string()),
            stored_size((folder.path() / "a.jpg").string()));
  EXPECT_THROW(stored_size((folder.path() / "none.png").string()), Error);
}

// Every scan of a progressive file goes over all pixels, so a small file with many could take minutes.
TEST(Decode, RefusesTooManyScans) {
  std::string jpeg = bytes_of(test::kJpegProgressive);
  const size_t frame = jpeg.find("\xff\xc2");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\x20\x00\x20\x00", 4);
  jpeg.append(100000, '\0');
  for (int i = 0; i < 60; ++i) jpeg.append("\xff\xda");
  EXPECT_THAT(failure("a.jpg", jpeg), HasSubstr("scans, too many for 8192x8192 pixels"));
}

// A JPEG that is not progressive, of three components in scans of their own. A scan of 16x16 zeros is one
// byte: two bits for each block.
std::string scan_by_scan(int side, int scans, size_t scan_bytes) {
  const std::string size{static_cast<char>(side >> 8), static_cast<char>(side)};
  const std::string code = std::string("\x01", 1) + std::string(16, '\0');  // of one bit, for 0
  std::string jpeg = "\xff\xd8\xff\xdb" + std::string("\x00\x43\x00", 3) + std::string(64, '\x01');
  jpeg += "\xff\xc0" + std::string("\x00\x11\x08", 3) + size + size +
          std::string("\x03\x01\x11\x00\x02\x11\x00\x03\x11\x00", 10);
  jpeg += std::string("\xff\xc4\x00\x14\x00", 5) + code + std::string("\xff\xc4\x00\x14\x10", 5) + code;
  for (int i = 0; i < scans; ++i) {
    jpeg += std::string("\xff\xda\x00\x08\x01", 5) + static_cast<char>(1 + i % 3) +
            std::string("\x00\x00\x3f\x00", 4) + std::string(scan_bytes, '\0');
  }
  return jpeg + "\xff\xd9";
}

TEST(Decode, ScansAreCountedWhereThereAreSeveral) {
  const Image grey = decoded("a.jpg", scan_by_scan(16, 3, 1));
  EXPECT_EQ(grey.channels, 3);
  EXPECT_EQ(grey.pixels, std::vector<uint8_t>(3 * 16 * 16, 128));
  EXPECT_THAT(failure("a.jpg", scan_by_scan(8192, 60, 2000)),
              HasSubstr("is a JPEG with 60 scans, too many for 8192x8192 pixels"));
  // What follows the one scan of an ordinary file, such as a film, is none of its scans.
  const std::string jpeg = bytes_of(test::kJpegColour);
  std::string behind(16'800'000, '\xff');
  for (size_t i = 1; i < behind.size(); i += 2) behind[i] = '\xda';
  EXPECT_EQ(decoded("a.jpg", jpeg + behind).pixels, decoded("a.jpg", jpeg).pixels);
}

// Damaged files end in images or in DecodeError, whatever was changed; sanitizers watch.
void decode_damaged(const std::string& name, const std::string& file, uint64_t seed, int rounds) {
  Random random(seed);
  for (int round = 0; round < rounds; ++round) {
    std::string damaged = file;
    const uint64_t changes = random.below(8);
    for (uint64_t i = 0; i < changes; ++i)
      damaged[random.below(damaged.size())] = static_cast<char>(random.next());
    // Headers decide most, so they are changed more often than chance would.
    if (random.below(2) == 0)
      damaged[random.below(std::min<uint64_t>(damaged.size(), 64))] = static_cast<char>(random.next());
    if (random.below(4) == 0) damaged.resize(random.below(damaged.size()));
    try {
      decoded(name, damaged);
    } catch (const DecodeError& error) {
      EXPECT_STRNE(error.what(), "");
    }
  }
}

TEST(Decode, DamagedFilesNeverCrash) {
  uint64_t seed = 1;
  for (const std::string_view png :
       {test::kGrey8, test::kColour8, test::kColourAlpha8, test::kGreyAlpha8, test::kGrey16, test::kColour16,
        test::kPalette8, test::kPalette4, test::kGrey1, test::kGrey2, test::kInterlaced}) {
    decode_damaged("a.png", bytes_of(png), seed++, 400);
  }
  for (const std::string_view jpeg :
       {test::kJpegColour, test::kJpegProgressive, test::kJpegGrey, test::kJpegInk})
    decode_damaged("a.jpg", bytes_of(jpeg), seed++, 400);
  decode_damaged("a.png", read_file(test::digits_folder() / "0/00001.png"), seed++, 1000);
}

TEST(Decode, DamagedPhotosNeverCrash) {
  const lockstep::test::TemporaryFolder folder;
  test::unpack(test::test_data("plants-jpg.tar"), folder.path(), "plants/Kiwi");
  uint64_t seed = 100;
  for (const auto& item : std::filesystem::directory_iterator(folder.path() / "plants/Kiwi")) {
    const std::string photo = read_file(item.path());
    const Image image = decoded("a.jpg", photo);
    EXPECT_EQ(image.channels, 3);
    EXPECT_GE(image.height, 348);
    EXPECT_EQ(failure("a.jpg", photo.substr(0, photo.size() / 2)),
              "JPEG ends at byte " + std::to_string(photo.size() / 2));
    if (seed < 110) decode_damaged("a.jpg", photo, seed++, 20);
  }
}

}  // namespace
}  // namespace lockstep::data
