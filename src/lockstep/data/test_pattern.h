// An image of any size with the pattern of the test images.
#pragma once

#include <cstdint>

#include "lockstep/data/test_images.h"
#include "lockstep/data/transform.h"

namespace lockstep::data::test {

inline Image pattern(int64_t channels, int64_t height, int64_t width) {
  Image image{channels, height, width, {}};
  for (int c = 0; c < channels; ++c) {
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) image.pixels.push_back(static_cast<uint8_t>(level(x, y, c)));
    }
  }
  return image;
}

}  // namespace lockstep::data::test
