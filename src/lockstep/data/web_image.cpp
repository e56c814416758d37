#include "lockstep/data/web_image.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <new>

#include <spng.h>
#include <turbojpeg.h>

#include "lockstep/data/image_set.h"

namespace lockstep::data {
namespace {

constexpr int64_t kMostPngPixels = 64 * 64;
constexpr int kJpegQuality = 85;

// The channels of a pixel are next to each other.
std::string interleaved_pixels(const std::string& planes, const ImageSize& size) {
  std::string pixels(planes.size(), '\0');
  const int64_t count = size.height * size.width;
  for (int64_t c = 0; c < size.channels; ++c) {
    for (int64_t i = 0; i < count; ++i)
      pixels[static_cast<size_t>(i * size.channels + c)] = planes[static_cast<size_t>(c * count + i)];
  }
  return pixels;
}

std::string as_png(const std::string& pixels, const ImageSize& size) {
  const std::unique_ptr<spng_ctx, void (*)(spng_ctx*)> context(spng_ctx_new(SPNG_CTX_ENCODER), spng_ctx_free);
  if (context == nullptr) throw std::bad_alloc();
  spng_ihdr header{};
  header.width = static_cast<uint32_t>(size.width);
  header.height = static_cast<uint32_t>(size.height);
  header.bit_depth = 8;
  header.color_type = size.channels == 1 ? SPNG_COLOR_TYPE_GRAYSCALE : SPNG_COLOR_TYPE_TRUECOLOR;
  int code = spng_set_option(context.get(), SPNG_ENCODE_TO_BUFFER, 1);
  if (code == 0) code = spng_set_ihdr(context.get(), &header);
  if (code == 0)
    code = spng_encode_image(context.get(), pixels.data(), pixels.size(), SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
  size_t length = 0;
  const std::unique_ptr<void, void (*)(void*)> bytes(
      code == 0 ? spng_get_png_buffer(context.get(), &length, &code) : nullptr, std::free);
  if (code != 0 || bytes == nullptr)
    throw Error(ErrorCode::internal, std::string("cannot encode a PNG: ") + spng_strerror(code));
  return {static_cast<const char*>(bytes.get()), length};
}

std::string as_jpeg(const std::string& pixels, const ImageSize& size) {
  const std::unique_ptr<void, int (*)(void*)> handle(tjInitCompress(), tjDestroy);
  if (handle == nullptr) throw std::bad_alloc();
  unsigned char* bytes = nullptr;
  unsigned long length = 0;  // NOLINT: turbojpeg's
  const bool grey = size.channels == 1;
  const int failed =
      tjCompress2(handle.get(), reinterpret_cast<const unsigned char*>(pixels.data()),
                  static_cast<int>(size.width), 0, static_cast<int>(size.height), grey ? TJPF_GRAY : TJPF_RGB,
                  &bytes, &length, grey ? TJSAMP_GRAY : TJSAMP_420, kJpegQuality, 0);
  const std::unique_ptr<unsigned char, void (*)(unsigned char*)> owner(bytes, tjFree);
  if (failed != 0)
    throw Error(ErrorCode::internal, std::string("cannot encode a JPEG: ") + tjGetErrorStr2(handle.get()));
  return {reinterpret_cast<const char*>(bytes), length};
}

}  // namespace

WebImage web_image(const Dataset& dataset, int64_t index, int64_t most_side) {
  ImageSize size = dataset.store().image_size(index);
  const double scale =
      std::min(1.0, static_cast<double>(most_side) / static_cast<double>(std::max(size.height, size.width)));
  size.height = std::max<int64_t>(1, std::llround(static_cast<double>(size.height) * scale));
  size.width = std::max<int64_t>(1, std::llround(static_cast<double>(size.width) * scale));
  const ImageSet images(dataset.subset({index}),
                        {.channels = size.channels, .height = size.height, .width = size.width},
                        /*most_bytes=*/0);
  std::string planes(static_cast<size_t>(size.bytes()), '\0');
  images.read(0, {reinterpret_cast<uint8_t*>(planes.data()), planes.size()});
  const std::string pixels = interleaved_pixels(planes, size);
  const bool tiny = size.height * size.width <= kMostPngPixels;
  return {tiny ? "image/png" : "image/jpeg", tiny ? as_png(pixels, size) : as_jpeg(pixels, size), size.height,
          size.width};
}

std::string grey_png(const std::string& pixels, int64_t height, int64_t width) {
  return as_png(pixels, {.channels = 1, .height = height, .width = width});
}

}  // namespace lockstep::data
