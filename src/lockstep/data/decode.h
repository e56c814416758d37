// Image files to pixels: PNG, JPEG, BMP, PPM and PGM, TIFF, WebP. The files are not trusted: sizes are
// checked against stated bounds and against what so many bytes can hold before memory is taken.
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
constexpr int64_t kMostFileBytes = int64_t{1} << 29;

/// Why an image cannot be read, e.g. "JPEG ends at byte 20480". Whoever knows the file's name makes a
/// BadImage of it.
class DecodeError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Whether the name ends as those of images do (.png, .jpg, .jpeg, .bmp, .ppm, .pgm, .pnm, .tif, .tiff,
/// .webp), in capitals or not.
bool is_image_name(std::string_view name);

/// Decodes a whole file held in memory to [C,H,W]; `name` says by its ending what it should be. Any thread.
/// An image is turned as EXIF says (Pillow's ImageOps.exif_transpose), and alpha and transparency are
/// dropped (its convert("RGB")). Grey stays one channel, a palette becomes three. PNG: every depth and kind;
/// 16 bits become the upper 8. JPEG: grey, YCbCr, RGB, CMYK and YCCK. BMP: 1 to 32 bits, not compressed. PPM,
/// PGM: binary. TIFF: the first image, not compressed or by PackBits, LZW, Deflate, JPEG or fax. WebP: not
/// animated. Images of more than two million pixels wait for one another where those that all threads
/// decode at once would take more than a quarter of the memory; so `sink` must not decode another.
/// Throws DecodeError.
void decode(std::string_view name, std::string_view file, const PixelSink& sink);

/// Up to `count` bytes of a file from `offset` on, fewer at its end; the view is valid until the next call.
using ByteWindow = std::function<std::string_view(size_t offset, size_t count)>;
/// What a window must be able to give at once.
constexpr size_t kMostWindow = 4096;

/// The same size that decode() would give, from a few kilobytes. Throws DecodeError and what the window
/// throws.
ImageSize image_size_of(std::string_view name, const ByteWindow& bytes_at);

/// Bytes of a file from `offset` on; fewer than asked for only at its end. Returns how many.
using ReadAt = std::function<size_t(int64_t offset, std::span<char> destination)>;
/// image_size_of of what `read_at` reads, wherever that lies. Throws also what it throws.
ImageSize stored_size(std::string_view name, const ReadAt& read_at);

/// The same of a file. Throws also not_found or io.
ImageSize stored_size(const std::string& path);

}  // namespace lockstep::data
