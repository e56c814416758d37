// Decodes image files: PNG, JPEG, BMP, PPM and PGM, TIFF, WebP. Files are not trusted: before memory is
// allocated, sizes are checked against fixed limits and against the number of pixels that the file's bytes
// can encode.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "lockstep/data/datastore.h"
#include "lockstep/data/pixels.h"

namespace lockstep::data {

constexpr int64_t kMostPixels = int64_t{1} << 27;
constexpr int64_t kMostSide = int64_t{1} << 20;  // pixels; resizing takes memory for several whole rows
constexpr int64_t kMostFileBytes = int64_t{1} << 29;

/// Why an image cannot be read, for example "JPEG ends at byte 20480". A caller that knows the file's name
/// turns it into a BadImage.
class DecodeError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Whether the name has the ending of an image file (.png, .jpg, .jpeg, .jpe, .jfif, .bmp, .dib, .ppm, .pgm,
/// .pbm, .pnm, .tif, .tiff, .webp), in upper or lower case.
bool is_image_name(std::string_view name);

/// Decodes a whole file in memory to [C,H,W]. The content says what the format is; `name` must have an ending
/// of image files. Any thread.
/// The image is rotated as EXIF says (Pillow's ImageOps.exif_transpose); alpha and transparency are dropped
/// (Pillow's convert("RGB")). Grey images have one channel; palettes become three.
/// PNG: all depths and kinds; of 16 bits the upper 8 are used. JPEG: grey, YCbCr, RGB, CMYK and YCCK. BMP: 1
/// to 32 bits, uncompressed or RLE. PPM, PGM: binary or text, also PBM's. TIFF: the first image, uncompressed
/// or PackBits, LZW, Deflate, JPEG or fax, but not CIELAB. WebP: not animated.
/// Images of more than two million pixels wait for one another if decoding them at once would take more than
/// a quarter of the memory. `sink` must therefore not decode another image. Throws DecodeError.
void decode(std::string_view name, std::string_view file, const PixelSink& sink);

/// Returns up to `count` bytes of a file from `offset`, fewer at its end. The view is valid until the next
/// call.
using ByteWindow = std::function<std::string_view(size_t offset, size_t count)>;
/// The number of bytes that a window must be able to return in one call.
constexpr size_t kMostWindow = 4096;

/// The size that decode() would give, from a few kilobytes; EXIF that a PNG has after its pixels is not
/// looked for, so that height and width may then be the other way round. Throws DecodeError and what the
/// window throws.
ImageSize image_size_of(std::string_view name, const ByteWindow& bytes_at);

/// Reads bytes of a file from `offset` and returns their number; fewer than requested only at the file's end.
using ReadAt = std::function<size_t(int64_t offset, std::span<char> destination)>;
/// image_size_of for data that `read_at` reads from any place. Also throws what `read_at` throws.
ImageSize stored_size(std::string_view name, const ReadAt& read_at);

/// The same for a file. Also throws not_found or io.
ImageSize stored_size(const std::string& path);

}  // namespace lockstep::data
