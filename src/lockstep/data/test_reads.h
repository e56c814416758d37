// For tests: reads an image of a set into its own memory.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/data/image_set.h"

namespace lockstep::data::test {

inline std::vector<uint8_t> read(const ImageSet& images, int64_t index) {
  std::vector<uint8_t> image(static_cast<size_t>(images.image_bytes()));
  images.read(index, image);
  return image;
}

}  // namespace lockstep::data::test
