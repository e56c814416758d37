// Small images in formats that a browser shows.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/data/datastore.h"

namespace lockstep::data {

struct WebImage {
  std::string type;   ///< "image/png" or "image/jpeg"
  std::string bytes;  ///< contents of the file
  int64_t height = 0;
  int64_t width = 0;
};

/// The sample, reduced if its longer side has more than `most_side` pixels. Tiny images are PNG, pixel for
/// pixel; others are JPEG. Throws as Datastore::read_to.
WebImage web_image(const Dataset& dataset, int64_t index, int64_t most_side);

/// A grey picture as the contents of a PNG file. pixels: height * width bytes, row by row.
std::string grey_png(const std::string& pixels, int64_t height, int64_t width);

}  // namespace lockstep::data
