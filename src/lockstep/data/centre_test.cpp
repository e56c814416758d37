#include "lockstep/data/centre.h"

#include <algorithm>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/data/pixels.h"
#include "lockstep/data/test_folders.h"
#include "lockstep/data/sources.h"

namespace lockstep::data {
namespace {

TEST(Centre, IsCutOutOfTheFittedImage) {
  const Dataset digits = ImageFolder(test::digits_folder()).subset({0, 5000});
  const ImageFormat format{3, 20, 17};
  const Dataset centres = cut_out_centre(digits, format, {30, 32});
  ImageFormat larger = format;
  larger.height = 30;
  larger.width = 32;
  for (int64_t i = 0; i < 2; ++i) {
    const Image fitted = to_format(digits.store().read(i), larger);
    const Image centre = centres.store().read(i);
    EXPECT_EQ(centres.store().image_size(i), format.size());
    ASSERT_EQ(centre.pixels.size(), 3U * 20 * 17);
    for (int64_t y = 0; y < 20; ++y) {
      for (int64_t x = 0; x < 17; ++x)
        EXPECT_EQ(centre.pixels[static_cast<size_t>(y * 17 + x)],
                  fitted.pixels[static_cast<size_t>((y + 5) * 32 + x + 7)]);
    }
    EXPECT_EQ(centres.store().label(i), digits.store().label(i));
    EXPECT_EQ(centres.store().source(i), digits.store().source(i));
  }
  EXPECT_EQ(centres.store().listing_hash(), digits.store().listing_hash());
  EXPECT_THROW(cut_out_centre(digits, format, {19, 32}), Error);
}

// One image; says how it was to be decoded.
class Asked : public Datastore {
 public:
  int64_t size() const override { return 1; }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t) const override { return 0; }
  std::string source(int64_t) const override { return "asked"; }
  ImageSize image_size(int64_t) const override { return {1, 40, 40}; }
  void read_to(int64_t, const PixelSink& sink) const override {
    decode = sink.taker() == nullptr ? std::nullopt : std::optional(sink.taker()->decode());
    std::ranges::fill(sink({1, 40, 40}), uint8_t{7});
  }
  uint64_t listing_hash() const override { return 1; }
  mutable std::optional<Decode> decode;

 private:
  std::vector<std::string> classes_{"a"};
};

TEST(Centre, IsOfAnImageThatIsDecodedAsAsked) {
  const auto asked = std::make_shared<Asked>();
  for (const Decode decode : {Decode::fast, Decode::exact}) {
    const ImageFormat format{.channels = 1, .height = 10, .width = 10, .decode = decode};
    EXPECT_EQ(cut_out_centre(Dataset(asked), format, {20, 20}).store().read(0).pixels,
              std::vector<uint8_t>(100, 7));
    EXPECT_EQ(asked->decode, decode);
  }
}

}  // namespace
}  // namespace lockstep::data
