#include "lockstep/data/images_in_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<uint8_t> kPixels{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
constexpr ImageSize kTwoByThree{1, 2, 3};

std::string why_not(const ImageSize& size, const std::vector<int64_t>& labels) {
  try {
    make_images(size, {"cat", "dog"}, kPixels, labels);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_option);
    return error.message();
  }
  return "";
}

TEST(ImagesInMemory, HoldTheirPixelsAndLabels) {
  const Dataset images = make_images(kTwoByThree, {"cat", "dog"}, kPixels, {1, 0});
  EXPECT_EQ(images.size(), 2);
  EXPECT_EQ(images.store().label(0), 1);
  EXPECT_THAT(images.store().read(1).pixels, ElementsAre(7, 8, 9, 10, 11, 12));
  EXPECT_NE(images.store().listing_hash(),
            make_images(kTwoByThree, {"cat", "dog"}, kPixels, {1, 1}).store().listing_hash());
}

TEST(ImagesInMemory, SayWhatDoesNotFit) {
  EXPECT_THAT(why_not(kTwoByThree, {0, 1, 0}), HasSubstr("3 images of 1x2x3 have 18 pixel values, but 12"));
  EXPECT_THAT(why_not(kTwoByThree, {0, 2}), HasSubstr("image 1 has the label 2, but there are 2 classes"));
  EXPECT_THAT(why_not({2, 2, 3}, {0}), HasSubstr("cannot be of size 2x2x3"));
}

}  // namespace
}  // namespace lockstep::data
