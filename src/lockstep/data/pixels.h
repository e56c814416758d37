// Decoded pixels on their way from a decoder to a reader, as they happen to lie in memory.
#pragma once

#include <array>
#include <cstdint>

#include "lockstep/data/datastore.h"

namespace lockstep::device {
class JpegDecoder;
}

namespace lockstep::data {

/// One channel that lies anywhere: pixel (y, x) is first[y * row + x * step]; strides may be negative.
struct PixelPlane {
  const uint8_t* first = nullptr;
  int64_t row = 0;
  int64_t step = 1;
  int64_t height = 0;
  int64_t width = 0;
};

struct Pixels {
  ImageSize size;
  std::array<PixelPlane, 3> planes = {};  ///< size.channels of them
  /// Y, Cb and Cr (JFIF) instead of red, green and blue; Cb and Cr may be smaller, each of their pixels in
  /// the middle of those it stands for.
  bool luma_chroma = false;
  /// How many pixels of Y one of Cb and Cr stands for, across and down.
  int64_t chroma_width = 1;
  int64_t chroma_height = 1;
  /// The image's part of the height and width: under 1 where an image of 333 pixels was decoded to 167
  /// halves. Only of images that are not turned.
  double height_share = 1;
  double width_share = 1;
};

/// Rows of `pixel_bytes` a pixel, without gaps; channels are the first bytes of a pixel, `channel_bytes`
/// apart.
Pixels interleaved(const uint8_t* first, const ImageSize& size, int64_t pixel_bytes,
                   int64_t channel_bytes = 1);

/// Seen as EXIF's tag Orientation says (1 to 8; any other is 1): only strides and sizes change.
Pixels oriented(Pixels pixels, int64_t orientation);
ImageSize oriented(ImageSize size, int64_t orientation);

/// Copies to planes [C,H,W]. Not for luma_chroma.
void to_planes(const Pixels& pixels, std::span<uint8_t> planes);

/// How files become pixels. exact: as Pillow does, within 1 level. fast: JPEG is decoded at 1/2, 1/4 or 1/8
/// where the image wanted is so much smaller, by the quick cosine transform, and colours are resized before
/// they are spread and converted. gpu: the usual kinds of JPEG by a device::JpegDecoder, all else as exact.
enum class Decode { exact, fast, gpu };
constexpr std::array<const char*, 3> enum_names(Decode) { return {"exact", "fast", "gpu"}; }

/// A reader that makes something of the pixels itself.
class PixelTaker {
 public:
  virtual ~PixelTaker() = default;
  virtual Decode decode() const = 0;
  /// Of Decode::gpu.
  virtual const device::JpegDecoder* jpeg_decoder() const { return nullptr; }
  /// How much smaller an image of this size may come, in each direction: 0.3 when three tenths of its width
  /// and height would do.
  virtual double least_scale(const ImageSize& size) const = 0;
  /// The pixels are the decoder's, and gone after the call.
  virtual void take(const Pixels& pixels) = 0;
};

/// To the taker, else into the memory that `sink` gives.
void give(const Pixels& pixels, const PixelSink& sink);

}  // namespace lockstep::data
