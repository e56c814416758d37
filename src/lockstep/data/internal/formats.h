// The image formats behind decode.h. To add one, write a file with two such functions and add a line to the
// table in decode.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "lockstep/data/decode.h"

namespace lockstep::data {

/// A file that is ready to be decoded. It must not be moved until then.
struct Decoding {
  int64_t bytes = 0;  ///< maximum memory that `run` uses beside the file and the result
  std::function<void(const PixelSink&)> run;
};

ImageSize png_size(const ByteWindow& bytes_at);
void decode_png(std::string_view file, const PixelSink& sink);
ImageSize jpeg_size(const ByteWindow& bytes_at);
void decode_jpeg(std::string_view file, const PixelSink& sink);
ImageSize bmp_size(const ByteWindow& bytes_at);
void decode_bmp(std::string_view file, const PixelSink& sink);
ImageSize pnm_size(const ByteWindow& bytes_at);
void decode_pnm(std::string_view file, const PixelSink& sink);
ImageSize tiff_size(const ByteWindow& bytes_at);
/// A pixel may have eight samples, and a tile may be larger than the image. Throws DecodeError.
Decoding open_tiff(std::string_view file);
ImageSize webp_size(const ByteWindow& bytes_at);
void decode_webp(std::string_view file, const PixelSink& sink);

/// "it is a JPEG, but its name does not end in .jpg" for the first bytes of a file of another name; empty if
/// they are surely of none of the formats.
std::string misnamed(std::string_view head);

/// "a GIF" for the first 16 bytes of a file of a format that is known but not read; empty for any other file.
std::string other_format(std::string_view head);

/// ".png, .jpg, .jpeg": all endings of the names of images.
std::string image_endings();

/// EXIF's tag Orientation, 1 if there is none; `bytes_at` counts from the TIFF header that contains EXIF.
int64_t exif_orientation(const ByteWindow& bytes_at);

/// A window on bytes in memory.
ByteWindow window_of(std::string_view bytes);
/// A window that starts at `offset` of another one.
ByteWindow window_from(const ByteWindow& bytes_at, size_t offset);

/// Numbers of 1 to 4 bytes.
uint32_t little_endian(std::string_view bytes);
uint32_t big_endian(std::string_view bytes);

/// Throws DecodeError if width or height is 0 or there are more than kMostPixels, or than kMostSide.
void check_size(const ImageSize& size);

/// "WebP ends at byte 20480"
[[noreturn]] void ends_at(const char* format, size_t offset);

/// Temporary memory of this thread for pixels, kept between images unless it is large. Valid until the
/// thread's next call.
std::span<uint8_t> scratch(size_t bytes);

}  // namespace lockstep::data
