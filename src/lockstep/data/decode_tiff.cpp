// TIFF with libtiff. The most common kinds (8 or 16 bits, grey or colour, with or without alpha, samples
// beside each other or in planes) are read as stored; the rest goes through libtiff's own conversion.
#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include <tiffio.h>

#include "lockstep/data/internal/formats.h"

namespace lockstep::data {
namespace {

// Deflate, LZW and fax stay below (kMostInflation is Deflate's).
constexpr int64_t kMostTiffInflation = 4096;
constexpr int64_t kMostAllocation = 4 * kMostPixels;

// A file in libtiff's terms, and libtiff's messages.
struct TiffStream {
  const ByteWindow& bytes_at;
  uint64_t size = 0;
  uint64_t position = 0;
  std::string error;

  TiffStream(const ByteWindow& window, uint64_t bytes) : bytes_at(window), size(bytes) {}
};

tmsize_t read_stream(thandle_t handle, void* destination, tmsize_t count) {
  auto& stream = *static_cast<TiffStream*>(handle);
  tmsize_t have = 0;
  while (have < count) {
    const std::string_view bytes =
        stream.bytes_at(stream.position, static_cast<size_t>(std::min<tmsize_t>(count - have, kMostWindow)));
    if (bytes.empty()) break;
    std::memcpy(static_cast<char*>(destination) + have, bytes.data(), bytes.size());
    have += static_cast<tmsize_t>(bytes.size());
    stream.position += bytes.size();
  }
  return have;
}

tmsize_t refuse_write(thandle_t, void*, tmsize_t) { return 0; }

toff_t seek_stream(thandle_t handle, toff_t offset, int from) {
  auto& stream = *static_cast<TiffStream*>(handle);
  stream.position = from == SEEK_SET   ? offset
                    : from == SEEK_CUR ? stream.position + offset
                                       : stream.size + offset;
  return stream.position;
}

int close_stream(thandle_t) { return 0; }
toff_t size_of_stream(thandle_t handle) { return static_cast<TiffStream*>(handle)->size; }

int note_error(TIFF*, void* data, const char*, const char* format, va_list values) {
  auto& stream = *static_cast<TiffStream*>(data);
  std::array<char, 256> text{};
  std::vsnprintf(text.data(), text.size(), format, values);
  if (stream.error.empty()) stream.error = text.data();
  return 1;
}

int drop_warning(TIFF*, void*, const char*, const char*, va_list) { return 1; }

struct CloseTiff {
  void operator()(TIFF* tiff) const { TIFFClose(tiff); }
};
using OpenTiff = std::unique_ptr<TIFF, CloseTiff>;

[[noreturn]] void damaged(const TiffStream& stream) {
  std::string why = stream.error.empty() ? "libtiff cannot read it" : stream.error;
  if (why.starts_with(": ")) why.erase(0, 2);  // libtiff begins with the file's name, which it does not have
  while (!why.empty() && (why.back() == '.' || why.back() == '\n')) why.pop_back();
  throw DecodeError("TIFF is damaged (" + why + ")");
}

OpenTiff open_stream(TiffStream& stream) {
  struct FreeOptions {
    void operator()(TIFFOpenOptions* options) const { TIFFOpenOptionsFree(options); }
  };
  const std::unique_ptr<TIFFOpenOptions, FreeOptions> options(TIFFOpenOptionsAlloc());
  if (options == nullptr) throw std::bad_alloc();
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), kMostAllocation);
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), note_error, &stream);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), drop_warning, &stream);
  // r: no writing; m: no memory mapping.
  OpenTiff tiff(TIFFClientOpenExt("", "rm", &stream, read_stream, refuse_write, seek_stream, close_stream,
                                  size_of_stream, nullptr, nullptr, options.get()));
  if (tiff == nullptr) damaged(stream);
  return tiff;
}

struct TiffHeader {
  ImageSize size;  // as stored
  uint16_t bits = 1;
  uint16_t samples = 1;
  uint16_t kind = PHOTOMETRIC_MINISWHITE;
  uint16_t compression = COMPRESSION_NONE;
  uint16_t orientation = 1;
  bool in_planes = false;
  bool floating = false;

  int64_t pixel_bits() const { return int64_t{samples} * bits; }
  /// Bits from one pixel to the next where samples are read as stored.
  int64_t stored_bits() const { return in_planes ? bits : pixel_bits(); }
  /// How many times a pixel is read: samples that are not used and lie in planes are left out.
  int64_t passes() const { return in_planes ? size.channels : 1; }
  bool is_grey() const { return kind == PHOTOMETRIC_MINISBLACK || kind == PHOTOMETRIC_MINISWHITE; }
  /// Samples that are levels.
  bool plain() const {
    return (bits == 8 || bits == 16) && !floating && samples >= size.channels &&
           (samples <= 8 || in_planes) && (is_grey() || kind == PHOTOMETRIC_RGB) &&
           compression != COMPRESSION_JPEG;
  }
};

TiffHeader header_of(TIFF* tiff) {
  TiffHeader header;
  uint32_t width = 0, height = 0;
  uint16_t planes = PLANARCONFIG_CONTIG, format = SAMPLEFORMAT_UINT;
  TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width);
  TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_BITSPERSAMPLE, &header.bits);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLESPERPIXEL, &header.samples);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_PLANARCONFIG, &planes);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLEFORMAT, &format);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_COMPRESSION, &header.compression);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_ORIENTATION, &header.orientation);
  if (TIFFGetField(tiff, TIFFTAG_PHOTOMETRIC, &header.kind) == 0)
    throw DecodeError("TIFF is damaged (the meaning of its samples is missing)");
  header.in_planes = planes == PLANARCONFIG_SEPARATE && header.samples > 1;
  // Files say "undefined" of what are plain numbers.
  header.floating = format != SAMPLEFORMAT_UINT && format != SAMPLEFORMAT_VOID;
  header.size = {header.is_grey() ? 1 : 3, height, width};
  check_size(header.size);

  constexpr std::array<uint16_t, 9> kRead{
      COMPRESSION_NONE,      COMPRESSION_LZW,      COMPRESSION_ADOBE_DEFLATE,
      COMPRESSION_DEFLATE,   COMPRESSION_PACKBITS, COMPRESSION_CCITTFAX3,
      COMPRESSION_CCITTFAX4, COMPRESSION_CCITTRLE, COMPRESSION_JPEG};
  if (std::find(kRead.begin(), kRead.end(), header.compression) == kRead.end()) {
    throw DecodeError("it is a TIFF with compression " + std::to_string(header.compression) +
                      ", which is not supported");
  }
  // libtiff converts it without adapting its white, so that white comes out yellow.
  if (header.kind == PHOTOMETRIC_CIELAB)
    throw DecodeError("it is a TIFF with CIELAB colours, which are not supported; save it as RGB");
  constexpr std::array<uint16_t, 5> kBits{1, 2, 4, 8, 16};
  if (header.floating || std::ranges::find(kBits, header.bits) == kBits.end())
    throw DecodeError("it is a TIFF with " + std::to_string(header.bits) + " bits per sample" +
                      (header.floating ? " (signed or floating point)" : "") +
                      ", which is not supported; convert it to unsigned integers of 8 or 16 bits");
  return header;
}

void check_bytes(const TiffHeader& header, uint64_t file_bytes) {
  const int64_t bits = header.size.height * header.size.width * header.bits;
  if (bits / 8 / kMostTiffInflation > static_cast<int64_t>(file_bytes)) ends_at("TIFF", file_bytes);
}

// Tiles or strips: rectangles that are compressed separately.
struct Blocks {
  int64_t height = 0;
  int64_t width = 0;
  int64_t row_bytes = 0;
  bool tiles = false;
  int64_t bytes() const { return height * row_bytes; }
};

Blocks blocks_of(TIFF* tiff, const TiffHeader& header, const TiffStream& stream) {
  uint32_t height = 0, width = 0;
  const bool tiles = TIFFIsTiled(tiff) != 0;
  if (tiles) {
    TIFFGetField(tiff, TIFFTAG_TILELENGTH, &height);
    TIFFGetField(tiff, TIFFTAG_TILEWIDTH, &width);
  } else {
    TIFFGetFieldDefaulted(tiff, TIFFTAG_ROWSPERSTRIP, &height);
    height = static_cast<uint32_t>(std::min<int64_t>(height, header.size.height));
    width = static_cast<uint32_t>(header.size.width);
  }
  if (height == 0 || width == 0 || height > kMostPixels / int64_t{width} ||
      int64_t{height} * width / kMostTiffInflation > static_cast<int64_t>(stream.size))
    damaged(stream);
  const int64_t bits = header.plain() ? header.stored_bits() : header.pixel_bits();
  return {height, width, int64_t{width} * bits / 8, tiles};
}

// The samples as stored: [H,W,samples], or [channels,H,W] if they are in planes. Strips are decoded in place;
// a tile is first decoded to a buffer after the image.
std::span<uint8_t> read_samples(TIFF* tiff, const TiffHeader& header, const TiffStream& stream) {
  const Blocks blocks = blocks_of(tiff, header, stream);
  const int64_t pixel_bytes = header.stored_bits() / 8;
  const int64_t row_bytes = header.size.width * pixel_bytes;
  const int64_t pass_bytes = header.size.height * row_bytes, image_bytes = header.passes() * pass_bytes;
  const std::span<uint8_t> memory =
      scratch(static_cast<size_t>(image_bytes + (blocks.tiles ? blocks.bytes() : 0)));
  uint8_t* const tile = memory.data() + image_bytes;
  for (int64_t at = 0; at < header.passes() * header.size.height;) {
    const auto plane = static_cast<uint16_t>(at / header.size.height);
    const int64_t y = at % header.size.height, rows = std::min(blocks.height, header.size.height - y);
    const auto row = static_cast<uint32_t>(y);
    uint8_t* const to = memory.data() + at * row_bytes;
    at += rows;
    if (!blocks.tiles) {
      if (TIFFReadEncodedStrip(tiff, TIFFComputeStrip(tiff, row, plane), to, rows * row_bytes) <
          rows * row_bytes)
        damaged(stream);
      continue;
    }
    for (int64_t x = 0; x < header.size.width; x += blocks.width) {
      if (TIFFReadEncodedTile(tiff, TIFFComputeTile(tiff, static_cast<uint32_t>(x), row, 0, plane), tile,
                              blocks.bytes()) < blocks.bytes())
        damaged(stream);
      const auto part = static_cast<size_t>(std::min(blocks.width, header.size.width - x) * pixel_bytes);
      for (int64_t i = 0; i < rows; ++i)
        std::memcpy(to + i * row_bytes + x * pixel_bytes, tile + i * blocks.row_bytes, part);
    }
  }
  return memory.first(static_cast<size_t>(image_bytes));
}

void give_plain(TIFF* tiff, const TiffHeader& header, const TiffStream& stream, const PixelSink& sink) {
  const std::span<uint8_t> samples = read_samples(tiff, header, stream);
  if (header.kind == PHOTOMETRIC_MINISWHITE) {
    for (uint8_t& byte : samples) byte = static_cast<uint8_t>(~byte);
  }
  // libtiff returns 16 bits in this machine's byte order, so the upper byte is the second one.
  const int64_t sample_bytes = header.bits / 8;
  const int64_t next_channel =
      header.in_planes ? header.size.height * header.size.width * sample_bytes : sample_bytes;
  give(oriented(interleaved(samples.data() + (sample_bytes - 1), header.size, header.stored_bits() / 8,
                            next_channel),
                header.orientation),
       sink);
}

void give_converted(TIFF* tiff, const TiffHeader& header, const TiffStream& stream, const PixelSink& sink) {
  blocks_of(tiff, header, stream);
  const auto width = static_cast<uint32_t>(header.size.width),
             height = static_cast<uint32_t>(header.size.height);
  const auto pixels = static_cast<size_t>(width) * height;
  // libtiff would make colours darker where a pixel is partly transparent, but alpha is dropped.
  uint16_t extra_count = 0;
  const uint16_t* extras = nullptr;
  if (TIFFGetField(tiff, TIFFTAG_EXTRASAMPLES, &extra_count, &extras) != 0 && extra_count > 0) {
    std::vector<uint16_t> no_alpha(extra_count, EXTRASAMPLE_UNSPECIFIED);
    TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, int{extra_count}, no_alpha.data());
  }
  // Zeroed memory is not used before it is written: a small damaged file may promise many pixels.
  const std::unique_ptr<uint32_t[], decltype(&std::free)> colours(
      static_cast<uint32_t*>(std::calloc(pixels, sizeof(uint32_t))), &std::free);
  if (colours == nullptr) throw std::bad_alloc();
  TIFFRGBAImage image;
  std::array<char, 1024> why{};
  if (TIFFRGBAImageBegin(&image, tiff, /*stop_on_error=*/1, why.data()) == 0)
    throw DecodeError("it is a TIFF that is not supported (" + std::string(why.data()) + ")");
  image.req_orientation = header.orientation;  // as stored; rotated later in this file
  const int read = TIFFRGBAImageGet(&image, colours.get(), width, height);
  TIFFRGBAImageEnd(&image);
  if (read == 0) damaged(stream);
  give(oriented(interleaved(reinterpret_cast<const uint8_t*>(colours.get()), header.size, 4),
                header.orientation),
       sink);
}

class TiffFile {
 public:
  explicit TiffFile(std::string_view file)
      : bytes_at_(window_of(file)),
        stream_(bytes_at_, file.size()),
        tiff_(open_stream(stream_)),
        header_(header_of(tiff_.get())) {
    check_bytes(header_, stream_.size);
  }

  int64_t memory() const {
    const Blocks blocks = blocks_of(tiff_.get(), header_, stream_);
    const int64_t pixels = header_.size.height * header_.size.width,
                  compressed = static_cast<int64_t>(stream_.size);
    if (header_.plain())
      return pixels * header_.passes() * header_.stored_bits() / 8 + (blocks.tiles ? blocks.bytes() : 0) +
             compressed;
    // libtiff makes four bytes per pixel and also keeps a whole block in memory.
    return pixels * static_cast<int64_t>(sizeof(uint32_t)) + std::min(blocks.bytes(), kMostAllocation) +
           compressed;
  }

  void decode(const PixelSink& sink) const {
    if (header_.plain()) return give_plain(tiff_.get(), header_, stream_, sink);
    give_converted(tiff_.get(), header_, stream_, sink);
  }

 private:
  ByteWindow bytes_at_;
  TiffStream stream_;
  OpenTiff tiff_;
  TiffHeader header_;
};

}  // namespace

ImageSize tiff_size(const ByteWindow& bytes_at) {
  // The file size is unknown here; reading stops at the file's end.
  TiffStream stream(bytes_at, kMostFileBytes);
  const OpenTiff tiff = open_stream(stream);
  const TiffHeader header = header_of(tiff.get());
  return oriented(header.size, header.orientation);
}

Decoding open_tiff(std::string_view file) {
  auto tiff = std::make_shared<const TiffFile>(file);
  return {tiff->memory(), [tiff](const PixelSink& sink) { tiff->decode(sink); }};
}

}  // namespace lockstep::data
