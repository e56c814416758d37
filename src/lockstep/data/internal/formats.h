// The picture formats behind decode.h.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "lockstep/data/datastore.h"

namespace lockstep::data {

constexpr size_t kPngHeaderBytes = 33;

/// From the first kPngHeaderBytes of a PNG.
ImageSize png_size(std::string_view head);
void decode_png(std::string_view file, const Placement& placement);

/// What a JPEG's markers say in front of its pixels.
struct JpegHeader {
  ImageSize size;         ///< of the decoded picture: one channel or three
  int64_t components = 0; ///< as stored; 4 is CMYK
  bool adobe = false;     ///< has Adobe's marker, which means that CMYK is stored inverted
};

/// `bytes_at(offset, count)` gives up to `count` bytes of the file, fewer at its end; the view is valid until the next call.
using ByteWindow = std::function<std::string_view(size_t offset, size_t count)>;
JpegHeader jpeg_header(const ByteWindow& bytes_at);
void decode_jpeg(std::string_view file, const Placement& placement);

/// Throws DecodeError when width or height is 0 or there are more than kMostPixels.
void check_size(const ImageSize& size);

/// Memory of this thread for pixels on their way, kept between pictures unless it is large. Valid until the thread's next call.
std::span<uint8_t> scratch(size_t bytes);

/// Where a decoder puts the samples of a pixel.
struct PixelLayout {
  int64_t pixel_bytes = 0;    ///< from one pixel to the next
  int64_t channel_bytes = 0;  ///< from one channel to the next
};

/// Takes the first byte of each sample: `planes` is [C,H,W] with `pixels` = H * W.
void to_planes(const uint8_t* interleaved, PixelLayout layout, int64_t pixels, std::span<uint8_t> planes);

}  // namespace lockstep::data
