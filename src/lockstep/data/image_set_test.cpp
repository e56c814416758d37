#include "lockstep/data/image_set.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/data/sources.h"
#include "lockstep/data/test_folders.h"
#include "lockstep/data/test_images.h"
#include "lockstep/data/test_reads.h"

namespace lockstep::data {
namespace {

using test::bytes_of;
using testing::HasSubstr;

TEST(ImageSet, GivesTheSameWhetherItKeepsOrNot) {
  const Dataset digits = open_source(test::digits_folder()).dataset;
  const ImageSet keeping(digits, {1, 28, 28}, int64_t{1} << 30), reading(digits, {1, 28, 28}, 1000);
  EXPECT_TRUE(keeping.kept());
  EXPECT_FALSE(reading.kept());
  for (int64_t i = 0; i < 10000; i += 97) {
    const auto image = test::read(reading, i);
    EXPECT_EQ(image, digits.store().read(i).pixels);
    EXPECT_EQ(test::read(keeping, i), image);
    EXPECT_EQ(test::read(keeping, i), image);
  }
}

TEST(ImageSet, ConvertsWhateverComes) {
  const lockstep::test::TemporaryFolder folder;
  folder.write("a/1.png", bytes_of(test::kColour8));
  folder.write("b/1.jpg", bytes_of(test::kJpegGrey));
  const Dataset dataset = open_source(folder.path()).dataset;
  const ImageFormat format{3, 6, 7, Resize::pad};
  const ImageSet images(dataset, format, 1 << 20);
  for (int64_t i = 0; i < 2; ++i)
    EXPECT_EQ(test::read(images, i), to_format(dataset.store().read(i), format).pixels);
}

TEST(ImageSet, ManyReadersAtOnceGetWholeImages) {
  const Dataset digits =
      open_source(test::digits_folder()).dataset.subset({0, 1, 2, 3, 4, 5000, 6000, 7000, 8000, 9000});
  std::vector<std::vector<uint8_t>> expected;
  for (int64_t i = 0; i < digits.size(); ++i) expected.push_back(digits.store().read(i).pixels);
  for (int round = 0; round < 20; ++round) {
    const ImageSet images(digits, {1, 28, 28}, 1 << 20);
    std::vector<std::jthread> readers;
    for (int reader = 0; reader < 4; ++reader) {
      readers.emplace_back([&] {
        for (int64_t i = 0; i < digits.size(); ++i)
          EXPECT_EQ(test::read(images, i), expected[static_cast<size_t>(i)]);
      });
    }
  }
}

TEST(ImageSet, BadSamplesAreNumberedAndNamed) {
  const lockstep::test::TemporaryFolder folder;
  folder.write("a/1.png", bytes_of(test::kGrey8));
  folder.write("a/2.jpg", bytes_of(test::kJpegColour).substr(0, 250));
  folder.write("b/1.png", "hello, world");
  const Dataset dataset = open_source(folder.path()).dataset;
  for (const int64_t most_bytes : {0, 1 << 20}) {
    const ImageSet images(dataset, {1, 3, 5}, most_bytes);
    for (int attempt = 0; attempt < 2; ++attempt) {
      try {
        test::read(images, 1);
        FAIL();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::corrupt_data);
        EXPECT_THAT(error.what(), HasSubstr("a/2.jpg\" (sample 2 of 3): JPEG ends at byte 250"));
        EXPECT_EQ(error.hint(), "remove the file, or add --on-bad-sample skip");
      }
    }
    EXPECT_EQ(test::read(images, 0).size(), 15u);
  }
  const auto [good, bad] = without_bad_samples(dataset, {1, 3, 5}, 3);
  EXPECT_EQ(good.size(), 1);
  ASSERT_EQ(bad.size(), 2u);
  EXPECT_THAT(bad[0].source, HasSubstr("a/2.jpg"));
  EXPECT_EQ(bad[1].reason, "it is not a PNG");
}

}  // namespace
}  // namespace lockstep::data
