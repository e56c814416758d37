#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>

#include <spng.h>

#include "lockstep/data/decode.h"
#include "lockstep/data/internal/deflate.h"
#include "lockstep/data/internal/formats.h"

namespace lockstep::data {
namespace {

constexpr size_t kSignatureBytes = 8;
constexpr size_t kPngHeaderBytes = 33;  // with the signature
// Colour profiles and texts are skipped.
constexpr size_t kMostChunkBytes = size_t{16} << 20;

// Memory for libspng and zlib, about 60 KB in a dozen blocks for each image. It comes from a buffer that the
// thread keeps, because malloc would take longer than decoding an image of a few hundred bytes. Larger blocks
// come from malloc.
class Pieces {
 public:
  void begin() { used_ = 0; }

  void* take(size_t bytes) {
    const size_t begin = used_ + kHead;
    if (bytes > memory_.size() || begin + bytes > memory_.size()) return std::malloc(bytes);
    std::memcpy(memory_.data() + used_, &bytes, sizeof bytes);
    used_ = (begin + bytes + kHead - 1) / kHead * kHead;
    return memory_.data() + begin;
  }

  void* resize(void* piece, size_t bytes) {
    if (piece == nullptr || !is_own(piece))
      return piece == nullptr ? take(bytes) : std::realloc(piece, bytes);
    size_t had = 0;
    std::memcpy(&had, static_cast<std::byte*>(piece) - kHead, sizeof had);
    void* const other = take(bytes);
    if (other != nullptr) std::memcpy(other, piece, std::min(had, bytes));
    return other;
  }

  void give_back(void* piece) {
    if (!is_own(piece)) std::free(piece);
  }

 private:
  static constexpr size_t kHead = 16;  // keeps blocks aligned, and stores their size
  bool is_own(const void* piece) const {
    return std::less_equal<>{}(memory_.data(), static_cast<const std::byte*>(piece)) &&
           std::less<>{}(static_cast<const std::byte*>(piece), memory_.data() + memory_.size());
  }

  alignas(kHead) std::array<std::byte, 128 << 10> memory_;
  size_t used_ = 0;
};

Pieces& pieces() {
  thread_local const std::unique_ptr<Pieces> own(new Pieces);
  return *own;
}

spng_alloc piece_functions() {
  return {.malloc_fn = [](size_t bytes) { return pieces().take(bytes); },
          .realloc_fn = [](void* piece, size_t bytes) { return pieces().resize(piece, bytes); },
          .calloc_fn = [](size_t count, size_t bytes) -> void* {
            if (bytes != 0 && count > SIZE_MAX / bytes) return nullptr;
            void* const piece = pieces().take(count * bytes);
            if (piece != nullptr) std::memset(piece, 0, count * bytes);
            return piece;
          },
          .free_fn = [](void* piece) { pieces().give_back(piece); }};
}

struct FreeContext {
  void operator()(spng_ctx* context) const { spng_ctx_free(context); }
};
using Context = std::unique_ptr<spng_ctx, FreeContext>;

void check(int status, std::string_view file) {
  if (status == SPNG_OK) return;
  if (status == SPNG_EOF || status == SPNG_IO_EOF || status == SPNG_EIDAT_TOO_SHORT)
    ends_at("PNG", file.size());
  if (status == SPNG_EMEM) throw std::bad_alloc();
  throw DecodeError("PNG is damaged (" + std::string(spng_strerror(status)) + ")");
}

struct PngHeader {
  ImageSize size;
  int64_t bits_per_sample = 0;
  int64_t samples = 0;  // per stored pixel
  bool palette = false;
};

// Of the chunks before the pixels, of which no more are searched than a size is worth.
int64_t orientation_before_pixels(const ByteWindow& bytes_at) {
  constexpr int kMostChunks = 256;
  size_t offset = kPngHeaderBytes;
  for (int i = 0; i < kMostChunks; ++i) {
    const std::string_view chunk = bytes_at(offset, 8);
    if (chunk.size() < 8 || chunk.substr(4) == "IDAT") break;
    if (chunk.substr(4) == "eXIf") return exif_orientation(window_from(bytes_at, offset + 8));
    offset += 12 + size_t{big_endian(chunk.substr(0, 4))};
  }
  return 1;
}

/// Calls use(kind, chunk) with each chunk of a whole file.
template <class Use>
void for_each_chunk(std::string_view file, const Use& use) {
  for (size_t at = kSignatureBytes; at + 8 <= file.size();) {
    const size_t bytes = 12 + size_t{big_endian(file.substr(at, 4))};
    use(file.substr(at + 4, 4), file.substr(at, bytes));
    at += bytes;
  }
}

// Some programs add EXIF after the pixels.
int64_t orientation_in(std::string_view file) {
  std::optional<int64_t> orientation;
  for_each_chunk(file, [&](std::string_view kind, std::string_view chunk) {
    if (kind == "eXIf" && !orientation) orientation = exif_orientation(window_of(chunk.substr(8)));
  });
  return orientation.value_or(1);
}

bool is_needed(std::string_view kind) {
  constexpr std::array<std::string_view, 5> kNeeded{"IHDR", "PLTE", "tRNS", "IDAT", "IEND"};
  return std::ranges::find(kNeeded, kind) != kNeeded.end();
}

// The file without texts and the like if it has more of them than libspng reads; else empty. libspng's own
// option for their number cannot raise it.
std::string without_many_extras(std::string_view file) {
  constexpr int kMostExtras = 900;
  int extras = 0;
  for_each_chunk(file, [&](std::string_view kind, std::string_view) { extras += is_needed(kind) ? 0 : 1; });
  if (extras <= kMostExtras) return "";
  std::string needed(file.substr(0, kSignatureBytes));
  for_each_chunk(file, [&](std::string_view kind, std::string_view chunk) {
    if (is_needed(kind)) needed += chunk;
  });
  return needed;
}

PngHeader png_header(const ByteWindow& bytes_at) {
  const std::string_view head = bytes_at(0, kPngHeaderBytes);
  if (head.size() < kPngHeaderBytes) ends_at("PNG", head.size());
  if (head.substr(12, 4) != "IHDR") throw DecodeError("PNG is damaged (no header)");
  const auto kind = static_cast<uint8_t>(head[25]);
  const bool colour = (kind & SPNG_COLOR_TYPE_TRUECOLOR) != 0;
  const bool alpha = kind == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA || kind == SPNG_COLOR_TYPE_TRUECOLOR_ALPHA;
  const bool palette = kind == SPNG_COLOR_TYPE_INDEXED;
  PngHeader header;
  header.size = {colour ? 3 : 1, big_endian(head.substr(20, 4)), big_endian(head.substr(16, 4))};
  header.bits_per_sample = static_cast<uint8_t>(head[24]);
  header.samples = palette ? 1 : header.size.channels + (alpha ? 1 : 0);
  header.palette = palette;
  check_size(header.size);
  return header;
}

}  // namespace

ImageSize png_size(const ByteWindow& bytes_at) {
  const PngHeader header = png_header(bytes_at);
  return oriented(header.size, orientation_before_pixels(bytes_at));
}

void decode_png(std::string_view file, const PixelSink& sink) {
  const PngHeader header = png_header(window_of(file));
  const int64_t pixels = header.size.height * header.size.width;
  const int64_t pixel_bits = header.bits_per_sample * header.samples;
  if (pixels / 8 * pixel_bits > kMostInflation * static_cast<int64_t>(file.size())) check(SPNG_EOF, file);

  const int64_t orientation = orientation_in(file);
  const std::string needed = without_many_extras(file);
  const std::string_view used = needed.empty() ? file : needed;
  pieces().begin();
  spng_alloc functions = piece_functions();
  const Context context(spng_ctx_new2(&functions, 0));
  if (context == nullptr) throw std::bad_alloc();
  check(spng_set_image_limits(context.get(), static_cast<uint32_t>(header.size.width),
                              static_cast<uint32_t>(header.size.height)),
        file);
  check(spng_set_chunk_limits(context.get(), kMostChunkBytes, 2 * kMostChunkBytes), file);
  check(spng_set_crc_action(context.get(), SPNG_CRC_ERROR, SPNG_CRC_DISCARD), file);
  check(spng_set_png_buffer(context.get(), used.data(), used.size()), file);

  // Samples of whole bytes are stored as they are, with the upper byte of 16 bits first.
  const int format = header.palette ? SPNG_FMT_RGB8 : header.bits_per_sample < 8 ? SPNG_FMT_G8 : SPNG_FMT_RAW;
  size_t bytes = 0;
  check(spng_decoded_image_size(context.get(), format, &bytes), file);
  if (header.size.channels == 1 && bytes == static_cast<size_t>(pixels) && orientation == 1) {
    check(spng_decode_image(context.get(), sink(header.size).data(), bytes, format, 0), file);
    return;
  }
  const std::span<uint8_t> samples = scratch(bytes);
  check(spng_decode_image(context.get(), samples.data(), bytes, format, 0), file);
  const int64_t sample_bytes = header.palette ? 1 : std::max<int64_t>(header.bits_per_sample / 8, 1);
  give(oriented(interleaved(samples.data(), header.size, static_cast<int64_t>(bytes) / pixels, sample_bytes),
                orientation),
       sink);
}

}  // namespace lockstep::data
