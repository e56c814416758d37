#include <algorithm>
#include <array>
#include <memory>
#include <new>

#include <turbojpeg.h>

#include "lockstep/data/decode.h"
#include "lockstep/data/internal/formats.h"
#include "lockstep/device/jpeg_decoder.h"

namespace lockstep::data {
namespace {

// A scan needs at least one bit per block of 8x8, and in colour up to 32x32 pixels can share a block. A file
// with more pixels per byte is invalid.
constexpr int64_t kMostJpegPixelsPerByte = 1024;
// Real files have a few dozen segments before the image.
constexpr int kMostSteps = 1 << 16;
// Each scan of a file goes over the whole image; progressive files have about ten scans.
constexpr int64_t kMostScannedPixels = 16 * kMostPixels;
// Larger images would take much of a GPU's memory, which training needs: at least two bytes per coefficient.
constexpr int64_t kMostGpuPixels = int64_t{1} << 25;

// The contents of a JPEG's markers before its pixels.
struct JpegHeader {
  ImageSize size;          // as stored: one channel or three
  int64_t components = 0;  // 4 is CMYK
  bool progressive = false;
  bool huffman = false;     // baseline, extended or progressive; not lossless, hierarchical or arithmetic
  int64_t orientation = 0;  // 0: no EXIF
};

struct DestroyHandle {
  void operator()(void* handle) const { tjDestroy(handle); }
};

tjhandle thread_handle() {
  thread_local const std::unique_ptr<void, DestroyHandle> handle(tjInitDecompress());
  if (handle == nullptr) throw std::bad_alloc();
  return handle.get();
}

[[noreturn]] void damaged(const std::string& why) { throw DecodeError("JPEG is damaged (" + why + ")"); }

int64_t byte_at(std::string_view bytes, size_t position) { return static_cast<uint8_t>(bytes[position]); }
int64_t big_endian16(std::string_view bytes, size_t position) {
  return big_endian(bytes.substr(position, 2));
}

bool is_frame(int64_t marker) {
  return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}
bool stands_alone(int64_t marker) { return marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8); }

bool is_progressive(int64_t marker) { return (marker & 3) == 2; }
bool is_huffman(int64_t marker) { return marker <= 0xc2; }

// A frame segment: length, bits, height, width, components.
void read_frame(std::string_view segment, JpegHeader& header) {
  if (const int64_t bits = byte_at(segment, 2); bits != 8)
    throw DecodeError("it is a JPEG with " + std::to_string(bits) + " bits per sample; only 8 are supported");
  header.components = byte_at(segment, 7);
  if (header.components != 1 && header.components != 3 && header.components != 4) {
    throw DecodeError("it is a JPEG with " + std::to_string(header.components) +
                      " components; only 1, 3 and 4 are supported");
  }
  header.size = {header.components == 1 ? 1 : 3, big_endian16(segment, 3), big_endian16(segment, 5)};
  check_size(header.size);
}

// Reads up to the frame header.
JpegHeader jpeg_header(const ByteWindow& bytes_at) {
  constexpr std::string_view kExif("Exif\0\0", 6);
  JpegHeader header;
  size_t offset = 2;
  for (int step = 0; step < kMostSteps; ++step) {
    // Enough for every segment that is parsed.
    const std::string_view bytes = bytes_at(offset, 20);
    if (bytes.size() < 2) ends_at("JPEG", offset + bytes.size());
    const int64_t marker = byte_at(bytes, 1);
    if (byte_at(bytes, 0) != 0xff || marker == 0xff || marker == 0) {
      ++offset;
      continue;
    }
    if (stands_alone(marker)) {
      offset += 2;
      continue;
    }
    if (marker == 0xda || marker == 0xd9) damaged("no frame header");
    if (bytes.size() < 4) ends_at("JPEG", offset + bytes.size());
    const int64_t length = big_endian16(bytes, 2);
    if (length < 2) damaged("a segment with no length");
    if (is_frame(marker)) {
      if (bytes.size() < 10) ends_at("JPEG", offset + bytes.size());
      read_frame(bytes.substr(2), header);
      header.progressive = is_progressive(marker);
      header.huffman = is_huffman(marker);
      return header;
    }
    if (marker == 0xe1 && header.orientation == 0 && bytes.size() > 10 && bytes.substr(4, 6) == kExif) {
      header.orientation = exif_orientation(window_from(bytes_at, offset + 10));
    }
    offset += 2 + static_cast<size_t>(length);
  }
  damaged("no image after " + std::to_string(kMostSteps) + " segments");
}

// Position of the first scan's marker, npos without one. Steps through the segments like libjpeg.
size_t first_scan(std::string_view file) {
  for (size_t at = 2; at + 4 < file.size();) {
    const int64_t marker = byte_at(file, at + 1);
    if (byte_at(file, at) != 0xff || marker == 0xff || marker == 0) {
      ++at;
    } else if (stands_alone(marker)) {
      at += 2;
    } else if (marker == 0xda) {
      return at;
    } else {
      at += 2 + static_cast<size_t>(std::max<int64_t>(2, big_endian16(file, at + 2)));
    }
  }
  return std::string_view::npos;
}

// Whether the first scan has all components; libjpeg then reads no other scan.
bool one_scan(std::string_view file, const JpegHeader& header) {
  if (header.progressive) return false;
  const size_t scan = first_scan(file);
  return scan != std::string_view::npos && byte_at(file, scan + 4) == header.components;
}

// Inside a scan's data, 0xff is never followed by a marker's code.
void check_scans(std::string_view file, const JpegHeader& header) {
  int64_t scans = 0;
  for (size_t at = file.find("\xff\xda"); at != std::string_view::npos; at = file.find("\xff\xda", at + 2))
    ++scans;
  if (scans * header.size.height > kMostScannedPixels / header.size.width) {
    throw DecodeError("it is a JPEG with " + std::to_string(scans) + " scans, too many for " +
                      std::to_string(header.size.width) + "x" + std::to_string(header.size.height) +
                      " pixels");
  }
}

// Minor damage that other decoders accept too (a few stray bytes) is a warning; a premature end is an error.
void check(int status, tjhandle handle, std::string_view file) {
  if (status == 0) return;
  const std::string_view message = tjGetErrorStr2(handle);
  if (tjGetErrorCode(handle) != TJERR_WARNING) damaged(std::string(message));
  if (message.find("Premature end of JPEG") != std::string_view::npos ||
      file.rfind("\xff\xd9") == std::string_view::npos)
    ends_at("JPEG", file.size());
}

const unsigned char* bytes_of(std::string_view file) {
  return reinterpret_cast<const unsigned char*>(file.data());
}

// How the pixels of one file are decoded.
struct Way {
  bool fast = false;
  int shrink = 1;  // 1, 2, 4 or 8
  int flags = TJFLAG_LIMITSCANS;

  int64_t scaled(int64_t length) const { return (length + shrink - 1) / shrink; }
  double share(int64_t length) const {
    return static_cast<double>(length) / static_cast<double>(shrink * scaled(length));
  }
  ImageSize scaled(const ImageSize& size) const {
    return {size.channels, scaled(size.height), scaled(size.width)};
  }
};

Way way_for(const JpegHeader& header, const PixelTaker* taker) {
  Way way;
  if (taker == nullptr || taker->decode() != Decode::fast) return way;
  way.fast = true;
  way.flags |= TJFLAG_FASTUPSAMPLE;
  const double least = taker->least_scale(oriented(header.size, header.orientation));
  // In a rotated image, partial pixels would end up at the opposite side, so there are none.
  const auto divides = [&](int shrink) {
    return header.orientation <= 1 || (header.size.height % shrink == 0 && header.size.width % shrink == 0);
  };
  while (way.shrink < 8 && least * way.shrink * 2 <= 1 && divides(way.shrink * 2)) way.shrink *= 2;
  // The smaller transforms have no fast version, and with the flag TurboJPEG 2.1 uses wrong factors for
  // subsampled colour.
  if (way.shrink == 1) way.flags |= TJFLAG_FASTDCT;
  return way;
}

void decompress(std::string_view file, const ImageSize& size, TJPF format, const Way& way,
                std::span<uint8_t> destination) {
  const tjhandle handle = thread_handle();
  const int status =
      tjDecompress2(handle, bytes_of(file), file.size(), destination.data(), static_cast<int>(size.width), 0,
                    static_cast<int>(size.height), format, way.flags);
  check(status, handle, file);
}

// The colour space that libjpeg reports before decoding; -1 if it reports none, or reads another image than
// we do.
struct StoredColours {
  int space = -1;
  int subsampling = -1;
};

StoredColours stored_colours(std::string_view file, const JpegHeader& header) {
  int width = 0, height = 0;
  StoredColours colours;
  const int status = tjDecompressHeader3(thread_handle(), bytes_of(file), file.size(), &width, &height,
                                         &colours.subsampling, &colours.space);
  const bool known = status == 0 && colours.subsampling >= 0 && colours.subsampling < TJ_NUMSAMP &&
                     width == header.size.width && height == header.size.height;
  return known ? colours : StoredColours{};
}

// Only the kinds that every decoder supports, and with an end marker, so that libjpeg would read the file
// too. A marker does not occur inside a scan's data.
bool is_usual(std::string_view file, const JpegHeader& header) {
  if (!header.huffman || header.size.height * header.size.width > kMostGpuPixels) return false;
  const size_t scan = first_scan(file), end = file.rfind("\xff\xd9");
  if (scan == std::string_view::npos || end == std::string_view::npos || end < scan) return false;
  return stored_colours(file, header).space == (header.components == 1 ? TJCS_GRAY : TJCS_YCbCr);
}

// False if the image is left to libjpeg, which decodes it exactly or reports what is wrong with it.
bool decode_by(const device::JpegDecoder& decoder, std::string_view file, const JpegHeader& header,
               const PixelSink& sink) {
  const ImageSize& size = header.size;
  return is_usual(file, header) &&
         decoder.decode(file, {size.channels, size.height, size.width}, [&](std::span<const uint8_t> pixels) {
           give(oriented(interleaved(pixels.data(), size, size.channels), header.orientation), sink);
         });
}

// Luma and chroma as stored, so fewer pixels must be resized. False if the file is not of one of the usual
// kinds.
bool give_luma_chroma(std::string_view file, const JpegHeader& header, const Way& way,
                      const PixelSink& sink) {
  const tjhandle handle = thread_handle();
  const auto [colours, subsampling] = stored_colours(file, header);
  if (colours != TJCS_YCbCr) return false;

  const ImageSize size = way.scaled(header.size);
  Pixels pixels{.size = size,
                .luma_chroma = true,
                .chroma_width = tjMCUWidth[subsampling] / 8,
                .chroma_height = tjMCUHeight[subsampling] / 8};
  pixels.height_share = way.share(header.size.height);
  pixels.width_share = way.share(header.size.width);
  std::array<size_t, 4> begins{};
  std::array<int, 3> strides{};
  for (int c = 0; c < 3; ++c) {
    strides[static_cast<size_t>(c)] = tjPlaneWidth(c, static_cast<int>(size.width), subsampling);
    begins[static_cast<size_t>(c) + 1] =
        begins[static_cast<size_t>(c)] +
        tjPlaneSizeYUV(c, static_cast<int>(size.width), 0, static_cast<int>(size.height), subsampling);
  }
  const std::span<uint8_t> memory = scratch(begins[3]);
  std::array<unsigned char*, 3> planes{};
  for (size_t c = 0; c < 3; ++c) planes[c] = memory.data() + begins[c];
  const int status = tjDecompressToYUVPlanes(handle, bytes_of(file), file.size(), planes.data(),
                                             static_cast<int>(size.width), strides.data(),
                                             static_cast<int>(size.height), way.flags);
  check(status, handle, file);
  pixels.planes[0] = {planes[0], strides[0], 1, size.height, size.width};
  for (size_t c = 1; c < 3; ++c) {
    pixels.planes[c] = {planes[c], strides[c], 1,
                        tjPlaneHeight(static_cast<int>(c), static_cast<int>(size.height), subsampling),
                        strides[c]};
  }
  give(oriented(pixels, header.orientation), sink);
  return true;
}

// In place, from four bytes of inverted ink to three bytes of colour. Pillow takes ink as inverted in every
// file, with Adobe's marker or without.
void ink_to_colours(std::span<uint8_t> ink, int64_t pixels) {
  for (int64_t i = 0; i < pixels; ++i) {
    uint8_t* pixel = ink.data() + 4 * i;
    const uint32_t light = pixel[3];
    for (int64_t c = 0; c < 3; ++c) pixel[c] = static_cast<uint8_t>((pixel[c] * light + 127) / 255);
  }
}

}  // namespace

ImageSize jpeg_size(const ByteWindow& bytes_at) {
  const JpegHeader header = jpeg_header(bytes_at);
  return oriented(header.size, header.orientation);
}

void decode_jpeg(std::string_view file, const PixelSink& sink) {
  const JpegHeader header = jpeg_header(window_of(file));
  if (header.size.height * header.size.width / kMostJpegPixelsPerByte > static_cast<int64_t>(file.size()))
    ends_at("JPEG", file.size());
  if (!one_scan(file, header)) check_scans(file, header);

  const PixelTaker* taker = sink.taker();
  if (taker != nullptr && taker->jpeg_decoder() != nullptr &&
      decode_by(*taker->jpeg_decoder(), file, header, sink))
    return;
  const Way way = way_for(header, taker);
  if (header.components == 1 && header.orientation <= 1 && way.shrink == 1) {
    const std::span<uint8_t> levels = sink(header.size);
    decompress(file, header.size, TJPF_GRAY, way, levels);
    return;
  }
  if (way.fast && header.components == 3 && give_luma_chroma(file, header, way, sink)) return;

  const bool ink = header.components == 4;
  const int64_t pixel_bytes = ink ? 4 : header.size.channels;
  const ImageSize size = way.scaled(header.size);
  const std::span<uint8_t> pixels = scratch(static_cast<size_t>(size.height * size.width * pixel_bytes));
  decompress(file, size, ink ? TJPF_CMYK : pixel_bytes == 1 ? TJPF_GRAY : TJPF_RGB, way, pixels);
  if (ink) ink_to_colours(pixels, size.height * size.width);
  Pixels made = interleaved(pixels.data(), size, pixel_bytes);
  made.height_share = way.share(header.size.height);
  made.width_share = way.share(header.size.width);
  give(oriented(made, header.orientation), sink);
}

}  // namespace lockstep::data
