#include <algorithm>
#include <memory>

#include <spng.h>

#include "lockstep/data/decode.h"
#include "lockstep/data/internal/formats.h"

namespace lockstep::data {
namespace {

// Deflate makes at most 1,032 bytes of one.
constexpr int64_t kMostInflation = 1040;
// Colour profiles and texts beside the picture; they are read over, not used.
constexpr size_t kMostChunkBytes = size_t{16} << 20;

struct FreeContext {
  void operator()(spng_ctx* context) const { spng_ctx_free(context); }
};
using Context = std::unique_ptr<spng_ctx, FreeContext>;

void check(int status, std::string_view file) {
  if (status == SPNG_OK) return;
  if (status == SPNG_EOF || status == SPNG_IO_EOF || status == SPNG_EIDAT_TOO_SHORT) {
    throw DecodeError("PNG ends at byte " + std::to_string(file.size()));
  }
  if (status == SPNG_EMEM) throw std::bad_alloc();
  throw DecodeError("PNG is damaged (" + std::string(spng_strerror(status)) + ")");
}

uint32_t big_endian(std::string_view bytes) {
  uint32_t value = 0;
  for (const char byte : bytes.substr(0, 4)) value = value << 8 | static_cast<uint8_t>(byte);
  return value;
}

struct PngHeader {
  ImageSize size;
  int64_t bits_per_sample = 0;
  int64_t samples = 0;  // in a stored pixel
  bool palette = false;
};

PngHeader header_of(std::string_view head) {
  if (head.size() < kPngHeaderBytes) throw DecodeError("PNG ends at byte " + std::to_string(head.size()));
  if (head.substr(12, 4) != "IHDR") throw DecodeError("PNG is damaged (no header)");
  const auto kind = static_cast<uint8_t>(head[25]);
  const bool colour = (kind & SPNG_COLOR_TYPE_TRUECOLOR) != 0;
  const bool alpha = kind == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA || kind == SPNG_COLOR_TYPE_TRUECOLOR_ALPHA;
  const bool palette = kind == SPNG_COLOR_TYPE_INDEXED;
  PngHeader header;
  header.size = {colour ? 3 : 1, big_endian(head.substr(20)), big_endian(head.substr(16))};
  header.bits_per_sample = static_cast<uint8_t>(head[24]);
  header.samples = palette ? 1 : header.size.channels + (alpha ? 1 : 0);
  header.palette = palette;
  check_size(header.size);
  return header;
}

}  // namespace

ImageSize png_size(std::string_view head) { return header_of(head).size; }

void decode_png(std::string_view file, const Placement& placement) {
  const PngHeader header = header_of(file);
  const int64_t pixels = header.size.height * header.size.width;
  const int64_t pixel_bits = header.bits_per_sample * header.samples;
  if (pixels / 8 * pixel_bits > kMostInflation * static_cast<int64_t>(file.size())) check(SPNG_EOF, file);

  const Context context(spng_ctx_new(0));
  if (context == nullptr) throw std::bad_alloc();
  check(spng_set_image_limits(context.get(), static_cast<uint32_t>(header.size.width), static_cast<uint32_t>(header.size.height)), file);
  check(spng_set_chunk_limits(context.get(), kMostChunkBytes, 2 * kMostChunkBytes), file);
  check(spng_set_crc_action(context.get(), SPNG_CRC_ERROR, SPNG_CRC_DISCARD), file);
  check(spng_set_png_buffer(context.get(), file.data(), file.size()), file);

  // Whole bytes come as they are stored, the upper byte of 16 bits first.
  const int format = header.palette ? SPNG_FMT_RGB8 : header.bits_per_sample < 8 ? SPNG_FMT_G8 : SPNG_FMT_RAW;
  size_t bytes = 0;
  check(spng_decoded_image_size(context.get(), format, &bytes), file);
  const std::span<uint8_t> planes = placement(header.size);
  if (bytes == planes.size() && header.size.channels == 1) {
    check(spng_decode_image(context.get(), planes.data(), bytes, format, 0), file);
    return;
  }
  const std::span<uint8_t> interleaved = scratch(bytes);
  check(spng_decode_image(context.get(), interleaved.data(), bytes, format, 0), file);
  const int64_t sample_bytes = header.palette ? 1 : header.bits_per_sample / 8;
  to_planes(interleaved.data(), {static_cast<int64_t>(bytes) / pixels, sample_bytes}, pixels, planes);
}

}  // namespace lockstep::data
