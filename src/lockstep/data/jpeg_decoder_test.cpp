// Which files go to a JPEG decoder that is given from above, and that all others are read, or refused, as
// without one. The decoder here is libjpeg again, with the levels turned to their opposites, so that one sees
// who has read an image.
#include "lockstep/device/jpeg_decoder.h"

#include <atomic>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/data/decode.h"
#include "lockstep/data/internal/read_as.h"
#include "lockstep/data/image_cache.h"
#include "lockstep/data/image_set.h"
#include "lockstep/data/sources.h"
#include "lockstep/data/test_folders.h"
#include "lockstep/data/test_images.h"

namespace lockstep::data {
namespace {

using test::bytes_of;
using testing::HasSubstr;

// One file in memory.
class OneFile : public Datastore {
 public:
  OneFile(std::string name, std::string bytes) : name_(std::move(name)), bytes_(std::move(bytes)) {}
  int64_t size() const override { return 1; }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t) const override { return 0; }
  std::string source(int64_t) const override { return name_; }
  ImageSize image_size(int64_t) const override {
    return image_size_of(name_, [this](size_t offset, size_t count) {
      return offset < bytes_.size() ? std::string_view(bytes_).substr(offset, count) : std::string_view();
    });
  }
  void read_to(int64_t, const PixelSink& sink) const override { decode(name_, bytes_, sink); }
  uint64_t listing_hash() const override { return 1; }

 private:
  std::string name_, bytes_;
  std::vector<std::string> classes_{"a"};
};

std::vector<uint8_t> read(const OneFile& file, const device::JpegDecoder* decoder) {
  const ImageSize size = file.image_size(0);
  const ImageFormat format{.channels = size.channels,
                           .height = size.height,
                           .width = size.width,
                           .decode = decoder == nullptr ? Decode::exact : Decode::gpu,
                           .jpeg_decoder = decoder};
  std::vector<uint8_t> pixels(static_cast<size_t>(size.bytes()));
  read_as(file, 0, format, pixels);
  return pixels;
}

// What reading comes to: the levels, or the words of the refusal.
std::pair<std::vector<uint8_t>, std::string> outcome(const OneFile& file,
                                                     const device::JpegDecoder* decoder) {
  try {
    return {read(file, decoder), ""};
  } catch (const DecodeError& error) {
    return {{}, error.what()};
  }
}

std::vector<uint8_t> opposite(std::vector<uint8_t> levels) {
  for (uint8_t& level : levels) level = static_cast<uint8_t>(255 - level);
  return levels;
}

class Opposites : public device::JpegDecoder {
 public:
  std::string fingerprint() const override { return words; }
  bool decode(std::string_view file, const device::JpegShape& shape, const Take& take) const override {
    ++calls;
    if (refuses) return false;
    if (failure) throw Error(*failure);
    std::vector<uint8_t> planes;
    data::decode("a.jpg", upright(file), PixelSink([&](const ImageSize& size) {
                   EXPECT_EQ(size, (ImageSize{shape.channels, shape.height, shape.width}));
                   planes.resize(static_cast<size_t>(size.bytes()));
                   return std::span(planes);
                 }));
    std::vector<uint8_t> pixels;
    const auto plane = static_cast<size_t>(shape.height * shape.width);
    for (size_t i = 0; i < plane; ++i) {
      for (size_t c = 0; c < static_cast<size_t>(shape.channels); ++c)
        pixels.push_back(planes[c * plane + i]);
    }
    take(opposite(pixels));
    return true;
  }

  std::string words = "opposites";
  bool refuses = false;
  std::optional<Error> failure;
  mutable std::atomic<int> calls{0};

 private:
  // As it is stored: the name of EXIF's segment is spoilt.
  static std::string upright(std::string_view file) {
    std::string copy(file);
    if (const size_t at = copy.find("Exif"); at != std::string::npos) copy[at] = 'e';
    return copy;
  }
};

OneFile jpeg(std::string_view hexadecimal) { return {"a.jpg", bytes_of(hexadecimal)}; }

// With EXIF's orientation, and so wide and high as the file's first bytes can be read: 16x8 of the 16x16
// pixels, so that turned images differ in shape.
OneFile turned(int orientation) {
  std::string file = bytes_of(test::kJpegColour);
  const size_t frame = file.find("\xff\xc0");
  file[frame + 6] = 8;
  const std::string exif = std::string("Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0", 25) +
                           static_cast<char>(orientation) + std::string("\0\0\0\0\0\0", 6);
  return {"a.jpg", file.substr(0, 2) + "\xff\xe1" + std::string("\0", 1) +
                       static_cast<char>(exif.size() + 2) + exif + file.substr(2)};
}

TEST(JpegDecoder, ReadsTheUsualKindsOfJpeg) {
  int calls = 0;
  const Opposites decoder;
  for (const std::string_view kind : {test::kJpegColour, test::kJpegProgressive, test::kJpegGrey}) {
    const OneFile file = jpeg(kind);
    EXPECT_EQ(read(file, &decoder), opposite(read(file, nullptr)));
    EXPECT_EQ(decoder.calls, ++calls);
  }
}

TEST(JpegDecoder, ImagesAreTurnedAndResizedAsEver) {
  const Opposites decoder;
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const OneFile file = turned(orientation);
    EXPECT_EQ(file.image_size(0), orientation < 5 ? (ImageSize{3, 8, 16}) : (ImageSize{3, 16, 8}));
    EXPECT_EQ(read(file, &decoder), opposite(read(file, nullptr))) << orientation;
  }
  ImageFormat format{.channels = 1, .height = 5, .width = 7, .resize = Resize::crop};
  std::vector<uint8_t> exact(35), other(35);
  read_as(turned(6), 0, format, exact);
  format.decode = Decode::gpu;
  format.jpeg_decoder = &decoder;
  read_as(turned(6), 0, format, other);
  for (size_t i = 0; i < exact.size(); ++i)
    EXPECT_NEAR(other[i], 255 - exact[i], 1);  // the opposite of a rounded mean
  EXPECT_EQ(decoder.calls, 9);
}

TEST(JpegDecoder, OtherFilesAreReadOrRefusedAsWithoutIt) {
  const Opposites decoder;
  const std::string colour = bytes_of(test::kJpegColour), progressive = bytes_of(test::kJpegProgressive);
  const size_t frame = colour.find("\xff\xc0");
  const auto with = [&](size_t place, const std::string& bytes) {
    return std::string(colour).replace(place, bytes.size(), bytes);
  };
  std::string red_green_blue =
      with(frame + 10, "R").replace(colour.find("JFIF"), 4, "none");  // JFIF's colours are luma and chroma
  for (const auto& [from, to] : {std::pair{13, 'G'}, {16, 'B'}})
    red_green_blue[frame + static_cast<size_t>(from)] = to;
  const size_t scan = red_green_blue.find("\xff\xda");
  for (const auto& [from, to] : {std::pair{5, 'R'}, {7, 'G'}, {9, 'B'}})
    red_green_blue[scan + static_cast<size_t>(from)] = to;
  // An EXIF segment with a whole small JPEG in it, and then nothing: its end is not the image's.
  const std::string thumbnail = colour.substr(0, 2) + "\xff\xe1" + std::string("\x01\x42", 2) +
                                colour.substr(0, 0x140) + colour.substr(2, colour.size() - 20);
  const std::vector<std::pair<const char*, OneFile>> files{
      {"PNG", {"a.png", bytes_of(test::kColour8)}},
      {"ink", jpeg(test::kJpegInk)},
      {"red, green and blue", {"a.jpg", red_green_blue}},
      {"cut off", {"a.jpg", colour.substr(0, colour.size() - 10)}},
      {"progressive, cut off", {"a.jpg", progressive.substr(0, progressive.size() - 60)}},
      {"cut off in front of the scan", {"a.jpg", colour.substr(0, scan)}},
      {"only the small one has an end", {"a.jpg", thumbnail}},
      {"arithmetic", {"a.jpg", with(frame + 1, "\xc9")}},
      {"lossless", {"a.jpg", with(frame + 1, "\xc3")}},
      {"damaged tables", {"a.jpg", with(colour.find("\xff\xc4") + 5, std::string(16, '\xff'))}},
      {"odd colours", {"a.jpg", with(frame + 11, "\x33")}},
  };
  for (const auto& [what, file] : files) {
    EXPECT_EQ(outcome(file, &decoder), outcome(file, nullptr)) << what;
    EXPECT_EQ(decoder.calls, 0) << what;
  }
  const OneFile twelve_bits("a.jpg", with(frame + 4, "\x0c"));
  EXPECT_THROW(read(twelve_bits, &decoder), DecodeError);
  EXPECT_EQ(decoder.calls, 0);
}

TEST(JpegDecoder, LargeImagesStayOnTheProcessor) {
  const Opposites decoder;
  for (const auto& [height, calls] :
       {std::pair{0x1000, 1}, {0x1001, 1}}) {  // of 8192: two to the 25th pixels, and a row more
    std::string file = bytes_of(test::kJpegGrey);
    const size_t frame = file.find("\xff\xc0");
    file.replace(frame + 5, 4,
                 std::string{static_cast<char>(height >> 8), static_cast<char>(height), '\x20', '\0'});
    file.append(40000, '\0');
    const OneFile store("a.jpg", file);
    ImageFormat format{
        .channels = 1, .height = 4, .width = 4, .decode = Decode::gpu, .jpeg_decoder = &decoder};
    std::vector<uint8_t> pixels(16);
    read_as(store, 0, format, pixels);
    EXPECT_EQ(decoder.calls, calls) << height;
  }
}

TEST(JpegDecoder, WhatItRefusesIsReadExactlyAndItsFailuresLeave) {
  Opposites decoder;
  decoder.refuses = true;
  EXPECT_EQ(read(jpeg(test::kJpegColour), &decoder), read(jpeg(test::kJpegColour), nullptr));
  EXPECT_EQ(decoder.calls, 1);
  decoder.refuses = false;
  decoder.failure = Error(ErrorCode::device, "the device failed");
  try {
    read(jpeg(test::kJpegColour), &decoder);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::device);
  }
}

TEST(JpegDecoder, AFormatThatWantsOneMustNameIt) {
  const OneFile file = jpeg(test::kJpegColour);
  std::vector<uint8_t> pixels(3 * 16 * 16);
  EXPECT_THROW(read_as(file, 0, {.channels = 3, .height = 16, .width = 16, .decode = Decode::gpu}, pixels),
               Error);
}

TEST(JpegDecoder, ItsImagesHaveACacheOfTheirOwn) {
  const lockstep::test::TemporaryFolder folder;
  for (const char* name : {"photos/a/1.jpg", "photos/b/2.jpg"})
    folder.write(name, bytes_of(test::kJpegColour));
  const Dataset photos = open_source((folder.path() / "photos").string(), {}).dataset;
  Opposites decoder;
  const auto read_all = [&](const device::JpegDecoder* by, CacheUse use) {
    const ImageFormat format{.channels = 3,
                             .height = 16,
                             .width = 16,
                             .decode = by == nullptr ? Decode::exact : Decode::gpu,
                             .jpeg_decoder = by};
    const ImageSet images(
        photos, format, /*most_bytes=*/0,
        open_image_cache(folder.path() / "cache", photos.store(), format, use, 1 << 20).cache);
    std::vector<uint8_t> pixels(static_cast<size_t>(format.size().bytes()));
    for (int64_t i = 0; i < 2; ++i) images.read(i, pixels);
    return std::pair{pixels, images.cache() != nullptr};
  };
  const auto exact = read_all(nullptr, CacheUse::make).first;
  EXPECT_EQ(read_all(&decoder, CacheUse::read), (std::pair{opposite(exact), false}));
  EXPECT_EQ(read_all(&decoder, CacheUse::make).first, opposite(exact));
  EXPECT_EQ(decoder.calls, 4);
  EXPECT_EQ(read_all(&decoder, CacheUse::read), (std::pair{opposite(exact), true}));
  EXPECT_EQ(decoder.calls, 4);
  EXPECT_EQ(read_all(nullptr, CacheUse::read), (std::pair{exact, true}));
  // Another kind of GPU, or another version of its library.
  decoder.words = "other opposites";
  EXPECT_FALSE(read_all(&decoder, CacheUse::read).second);
}

}  // namespace
}  // namespace lockstep::data
