// Decoded pixels on their way from a decoder to a reader, in any memory layout.
#pragma once

#include <array>
#include <cstdint>

#include "lockstep/data/datastore.h"

namespace lockstep::device {
class JpegDecoder;
}

namespace lockstep::data {

/// One channel in memory: pixel (y, x) is first[y * row + x * step]; strides may be negative.
struct PixelPlane {
  const uint8_t* first = nullptr;
  int64_t row = 0;
  int64_t step = 1;
  int64_t height = 0;
  int64_t width = 0;
};

struct Pixels {
  ImageSize size;
  std::array<PixelPlane, 3> planes = {};  ///< size.channels of them are used
  /// Y, Cb and Cr (JFIF) instead of red, green and blue. Cb and Cr may be smaller; each of their pixels is at
  /// the centre of the pixels that it covers.
  bool luma_chroma = false;
  /// How many pixels of Y one pixel of Cb and Cr covers, horizontally and vertically.
  int64_t chroma_width = 1;
  int64_t chroma_height = 1;
  /// The part of the height and width that the image covers: below 1 if, for example, an image of 333 pixels
  /// was decoded to 167 half-size pixels. Only for images that are not rotated.
  double height_share = 1;
  double width_share = 1;
};

/// Rows with `pixel_bytes` per pixel, without gaps; channels are the first bytes of a pixel, `channel_bytes`
/// apart.
Pixels interleaved(const uint8_t* first, const ImageSize& size, int64_t pixel_bytes,
                   int64_t channel_bytes = 1);

/// The view that EXIF's tag Orientation asks for (1 to 8; any other value means 1): only strides and sizes
/// change.
Pixels oriented(Pixels pixels, int64_t orientation);
ImageSize oriented(ImageSize size, int64_t orientation);

/// Copies to planes [C,H,W]. Not for luma_chroma.
void to_planes(const Pixels& pixels, std::span<uint8_t> planes);

/// How files become pixels. exact: like Pillow, within 1 level. fast: a JPEG is decoded at 1/2, 1/4 or 1/8 of
/// its size if the requested image is small enough, with the fast cosine transform, and colour is resized
/// before upsampling and conversion. gpu: the usual kinds of JPEG with a device::JpegDecoder, everything else
/// as exact.
enum class Decode { exact, fast, gpu };
constexpr std::array<const char*, 3> enum_names(Decode) { return {"exact", "fast", "gpu"}; }

/// A reader that processes the pixels itself.
class PixelTaker {
 public:
  virtual ~PixelTaker() = default;
  virtual Decode decode() const = 0;
  /// The decoder for Decode::gpu.
  virtual const device::JpegDecoder* jpeg_decoder() const { return nullptr; }
  /// How much smaller an image of this size may be decoded, as a factor per direction: 0.3 if three tenths of
  /// its width and height are enough.
  virtual double least_scale(const ImageSize& size) const = 0;
  /// The pixels belong to the decoder and are invalid after the call.
  virtual void take(const Pixels& pixels) = 0;
};

/// Passes the pixels to the taker, or else copies them into the memory that `sink` returns.
void give(const Pixels& pixels, const PixelSink& sink);

}  // namespace lockstep::data
