// Decodes a file in memory to an image, or to the reason why it cannot be decoded.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/decode.h"

namespace lockstep::data::test {

inline Image decoded(std::string_view name, std::string_view file) {
  Image image;
  decode(name, file, [&](const ImageSize& size) {
    image = {size.channels, size.height, size.width, std::vector<uint8_t>(static_cast<size_t>(size.bytes()))};
    return std::span(image.pixels);
  });
  return image;
}

/// The DecodeError; empty if the image was decoded.
inline std::string failure(std::string_view name, std::string_view file) {
  try {
    decoded(name, file);
  } catch (const DecodeError& error) {
    return error.what();
  }
  return "";
}

}  // namespace lockstep::data::test
