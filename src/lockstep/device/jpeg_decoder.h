// JPEG files to pixels by a device of its own. What a file must be to be handed over, and who reads the
// others, is data's affair (data/decode_jpeg.cpp).
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

  /// What decides the levels, in one line: library and kind of device. Decoders with equal ones give equal
  /// levels.
  virtual std::string fingerprint() const = 0;

  /// shape.bytes() long, [height,width,channels]: grey, or red, green and blue. Gone after the call.
  using Take = std::function<void(std::span<const uint8_t> pixels)>;

  /// Decodes a whole file, calls `take` once and returns true. False, and no call, for a file that it has no
  /// way for or finds damaged; which files these are depends on nothing but the file. Throws std::exception
  /// where the device fails, and what `take` throws.
  virtual bool decode(std::string_view file, const JpegShape& shape, const Take& take) const = 0;
};

}  // namespace lockstep::device
