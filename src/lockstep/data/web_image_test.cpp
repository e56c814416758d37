#include <gtest/gtest.h>

#include "lockstep/data/decode.h"
#include "lockstep/data/web_image.h"

namespace lockstep::data {
namespace {

class OneImage : public Datastore {
 public:
  explicit OneImage(Image image) : image_(std::move(image)) {}
  int64_t size() const override { return 1; }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t) const override { return 0; }
  std::string source(int64_t) const override { return "one"; }
  ImageSize image_size(int64_t) const override { return {image_.channels, image_.height, image_.width}; }
  void read_to(int64_t, const PixelSink& sink) const override {
    const auto memory = sink(image_size(0));
    std::copy(image_.pixels.begin(), image_.pixels.end(), memory.begin());
  }
  uint64_t listing_hash() const override { return 0; }

 private:
  Image image_;
  std::vector<std::string> classes_{"a"};
};

// Each channel has a slope of its own.
Dataset slopes(int64_t channels, int64_t height, int64_t width) {
  Image image{channels, height, width, std::vector<uint8_t>(static_cast<size_t>(channels * height * width))};
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x)
        image.pixels[static_cast<size_t>((c * height + y) * width + x)] =
            static_cast<uint8_t>(c == 0   ? 255 * x / width
                                 : c == 1 ? 255 * y / height
                                          : 40);
    }
  }
  return Dataset(std::make_shared<OneImage>(std::move(image)));
}

Image decoded(const WebImage& web) {
  Image image;
  decode(web.type == "image/png" ? "a.png" : "a.jpg", web.bytes, PixelSink([&](const ImageSize& size) {
           image = {size.channels, size.height, size.width,
                    std::vector<uint8_t>(static_cast<size_t>(size.bytes()))};
           return std::span<uint8_t>(image.pixels);
         }));
  return image;
}

TEST(WebImage, TinyOnesAreKeptPixelForPixel) {
  for (const int64_t channels : {1, 3}) {
    const Dataset dataset = slopes(channels, 28, 20);
    const WebImage web = web_image(dataset, 0, 160);
    EXPECT_EQ(web.type, "image/png");
    const Image image = decoded(web);
    EXPECT_EQ(image.channels, channels);
    EXPECT_EQ(image.pixels, dataset.store().read(0).pixels);
  }
}

TEST(WebImage, LargeOnesBecomeSmallJpegsOfTheSameShape) {
  for (const int64_t channels : {1, 3}) {
    const WebImage web = web_image(slopes(channels, 300, 600), 0, 160);
    EXPECT_EQ(web.type, "image/jpeg");
    EXPECT_LT(web.bytes.size(), 20'000U);
    const Image image = decoded(web);
    EXPECT_EQ(image.height, 80);
    EXPECT_EQ(image.width, 160);
    EXPECT_EQ(image.channels, channels);
    EXPECT_NEAR(image.pixels[40 * 160 + 80], 128, 8);
    if (channels == 3) {
      EXPECT_NEAR(image.pixels[2 * 80 * 160 + 40 * 160 + 80], 40, 8);
    }
  }
}

TEST(WebImage, VeryFlatOnesKeepAPixel) { EXPECT_EQ(web_image(slopes(1, 1, 4000), 0, 160).height, 1); }

}  // namespace
}  // namespace lockstep::data
