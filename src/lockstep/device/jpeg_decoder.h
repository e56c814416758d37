// Decodes JPEG files on a device. data/decode_jpeg.cpp decides which files are given to it, and decodes the
// others.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::device {

/// An image as a JPEG file stores it, not turned: 1 channel (grey) or 3.
struct JpegShape {
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;
  int64_t bytes() const { return channels * height * width; }
};

/// Any thread may call any member.
class JpegDecoder {
 public:
  virtual ~JpegDecoder() = default;

  /// What decides the levels, in one line: library and kind of device. Decoders with equal fingerprints give
  /// equal levels.
  virtual std::string fingerprint() const = 0;

  /// shape.bytes() long, [height,width,channels]: grey, or red, green and blue. Invalid after the call.
  using Take = std::function<void(std::span<const uint8_t> pixels)>;

  /// Decodes a whole file, calls `take` once and returns true. Returns false without a call for a file that
  /// it cannot decode or finds damaged; this depends only on the file. Throws std::exception if the device
  /// fails, and what `take` throws.
  virtual bool decode(std::string_view file, const JpegShape& shape, const Take& take) const = 0;
};

}  // namespace lockstep::device
