// WebP: a RIFF file of chunks. libwebp decodes the image, and this file reads EXIF.
#include <new>

#include <webp/decode.h>

#include "lockstep/data/internal/formats.h"

namespace lockstep::data {
namespace {

// In lossless mode one colour takes almost no bytes, so a file of a few bytes may hold a small image but not
// a large one.
constexpr int64_t kPixelsOfAnyFile = int64_t{1} << 24;
constexpr int64_t kMostWebpPixelsPerByte = 4096;
constexpr int kMostChunks = 1 << 12;

struct WebpHeader {
  ImageSize size;  // as stored
  int64_t orientation = 1;
};

// EXIF is a separate chunk after the image. In an extended file, the first chunk says whether there is one.
int64_t webp_orientation(const ByteWindow& bytes_at) {
  const std::string_view head = bytes_at(0, 24);
  constexpr uint8_t kHasExif = 0x08;
  if (head.size() < 21 || head.substr(12, 4) != "VP8X" || (static_cast<uint8_t>(head[20]) & kHasExif) == 0)
    return 1;
  size_t offset = 12;
  for (int i = 0; i < kMostChunks; ++i) {
    const std::string_view chunk = bytes_at(offset, 14);
    if (chunk.size() < 14) return 1;
    const bool prefixed = chunk.substr(8, 6) == std::string_view("Exif\0\0", 6);
    if (chunk.substr(0, 4) == "EXIF")
      return exif_orientation(window_from(bytes_at, offset + (prefixed ? 14 : 8)));
    const size_t length = little_endian(chunk.substr(4, 4));
    offset += 8 + length + (length & 1);
  }
  return 1;
}

WebpHeader webp_header(const ByteWindow& bytes_at) {
  const std::string_view head = bytes_at(0, kMostWindow);
  WebPBitstreamFeatures features;
  const VP8StatusCode status =
      WebPGetFeatures(reinterpret_cast<const uint8_t*>(head.data()), head.size(), &features);
  if (status == VP8_STATUS_NOT_ENOUGH_DATA && head.size() < kMostWindow) ends_at("WebP", head.size());
  if (status != VP8_STATUS_OK) throw DecodeError("WebP is damaged (no header)");
  if (features.has_animation != 0)
    throw DecodeError("it is an animated WebP; only single images are supported");
  WebpHeader header{.size = {3, features.height, features.width}};
  check_size(header.size);
  header.orientation = webp_orientation(bytes_at);
  return header;
}

}  // namespace

ImageSize webp_size(const ByteWindow& bytes_at) {
  const WebpHeader header = webp_header(bytes_at);
  return oriented(header.size, header.orientation);
}

void decode_webp(std::string_view file, const PixelSink& sink) {
  const WebpHeader header = webp_header(window_of(file));
  const int64_t pixels = header.size.height * header.size.width;
  if (pixels > kPixelsOfAnyFile && pixels / kMostWebpPixelsPerByte > static_cast<int64_t>(file.size()))
    ends_at("WebP", file.size());

  const std::span<uint8_t> colours = scratch(static_cast<size_t>(header.size.bytes()));
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0)
    throw DecodeError("the version of libwebp differs from that of its headers");
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {colours.data(), static_cast<int>(3 * header.size.width), colours.size()};
  const VP8StatusCode status =
      WebPDecode(reinterpret_cast<const uint8_t*>(file.data()), file.size(), &config);
  WebPFreeDecBuffer(&config.output);
  if (status == VP8_STATUS_OUT_OF_MEMORY) throw std::bad_alloc();
  if (status == VP8_STATUS_NOT_ENOUGH_DATA || status == VP8_STATUS_SUSPENDED) ends_at("WebP", file.size());
  if (status != VP8_STATUS_OK)
    throw DecodeError("WebP is damaged (libwebp's status " + std::to_string(status) + ")");
  give(oriented(interleaved(colours.data(), header.size, 3), header.orientation), sink);
}

}  // namespace lockstep::data
