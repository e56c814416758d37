#include "lockstep/data/centre.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/data/test_folders.h"
#include "lockstep/data/sources.h"

namespace lockstep::data {
namespace {

TEST(Centre, IsCutOutOfTheFittedPicture) {
  const Dataset digits = ImageFolder(test::digits_folder()).subset({0, 5000});
  const PictureFormat format{3, 20, 17};
  const Dataset centres = cut_out_centre(digits, format, {30, 32});
  PictureFormat larger = format;
  larger.height = 30;
  larger.width = 32;
  for (int64_t i = 0; i < 2; ++i) {
    const Image fitted = to_format(digits.store().read(i), larger);
    const Image centre = centres.store().read(i);
    EXPECT_EQ(centres.store().image_size(i), format.size());
    ASSERT_EQ(centre.pixels.size(), 3U * 20 * 17);
    for (int64_t y = 0; y < 20; ++y) {
      for (int64_t x = 0; x < 17; ++x) EXPECT_EQ(centre.pixels[static_cast<size_t>(y * 17 + x)], fitted.pixels[static_cast<size_t>((y + 5) * 32 + x + 7)]);
    }
    EXPECT_EQ(centres.store().label(i), digits.store().label(i));
    EXPECT_EQ(centres.store().source(i), digits.store().source(i));
  }
  EXPECT_EQ(centres.store().listing_hash(), digits.store().listing_hash());
  EXPECT_THROW(cut_out_centre(digits, format, {19, 32}), Error);
}

}  // namespace
}  // namespace lockstep::data
