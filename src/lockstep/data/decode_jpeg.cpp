#include <memory>
#include <new>

#include <turbojpeg.h>

#include "lockstep/data/decode.h"
#include "lockstep/data/internal/formats.h"

namespace lockstep::data {
namespace {

// A scan needs a bit for each block of 8x8 at least, and up to 32x32 pixels can share one in colour; more pixels for a byte cannot be.
constexpr int64_t kMostPixelsPerByte = 1024;
// Real files have a few dozen segments in front of the picture.
constexpr int kMostSteps = 1 << 16;

struct DestroyHandle {
  void operator()(void* handle) const { tjDestroy(handle); }
};

tjhandle thread_handle() {
  thread_local const std::unique_ptr<void, DestroyHandle> handle(tjInitDecompress());
  if (handle == nullptr) throw std::bad_alloc();
  return handle.get();
}

[[noreturn]] void ends_at(size_t offset) { throw DecodeError("JPEG ends at byte " + std::to_string(offset)); }
[[noreturn]] void damaged(const std::string& why) { throw DecodeError("JPEG is damaged (" + why + ")"); }

int64_t byte_at(std::string_view bytes, size_t position) { return static_cast<uint8_t>(bytes[position]); }
int64_t big_endian16(std::string_view bytes, size_t position) { return byte_at(bytes, position) << 8 | byte_at(bytes, position + 1); }

bool is_frame(int64_t marker) { return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc; }
bool stands_alone(int64_t marker) { return marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8); }

// A frame segment: length, bits, height, width, components.
void read_frame(std::string_view segment, JpegHeader& header) {
  if (const int64_t bits = byte_at(segment, 2); bits != 8)
    throw DecodeError("is a JPEG with " + std::to_string(bits) + " bits a sample, only 8 are read");
  header.components = byte_at(segment, 7);
  if (header.components != 1 && header.components != 3 && header.components != 4) {
    throw DecodeError("is a JPEG with " + std::to_string(header.components) + " components, only 1, 3 and 4 are read");
  }
  header.size = {header.components == 1 ? 1 : 3, big_endian16(segment, 3), big_endian16(segment, 5)};
  check_size(header.size);
}

// Damage that other readers accept too (a few stray bytes) is a warning; an early end is not.
bool ends_early(tjhandle handle, std::string_view file) {
  return std::string_view(tjGetErrorStr2(handle)).find("Premature end of JPEG") != std::string_view::npos ||
         file.rfind("\xff\xd9") == std::string_view::npos;
}

void decompress(std::string_view file, const ImageSize& size, TJPF format, std::span<uint8_t> destination) {
  const tjhandle handle = thread_handle();
  const int status = tjDecompress2(handle, reinterpret_cast<const unsigned char*>(file.data()), file.size(), destination.data(),
                                   static_cast<int>(size.width), 0, static_cast<int>(size.height), format, TJFLAG_LIMITSCANS);
  if (status == 0) return;
  if (tjGetErrorCode(handle) != TJERR_WARNING) damaged(tjGetErrorStr2(handle));
  if (ends_early(handle, file)) ends_at(file.size());
}

void ink_to_planes(std::span<const uint8_t> ink, bool inverted, int64_t pixels, std::span<uint8_t> planes) {
  const uint32_t flip = inverted ? 0 : 255;
  for (int64_t i = 0; i < pixels; ++i) {
    const uint8_t* pixel = ink.data() + 4 * i;
    const uint32_t light = pixel[3] ^ flip;
    for (int64_t c = 0; c < 3; ++c) planes[static_cast<size_t>(c * pixels + i)] = static_cast<uint8_t>(((pixel[c] ^ flip) * light + 127) / 255);
  }
}

}  // namespace

JpegHeader jpeg_header(const ByteWindow& bytes_at) {
  JpegHeader header;
  size_t offset = 2;
  for (int step = 0; step < kMostSteps; ++step) {
    // Enough for every segment that is looked into.
    const std::string_view bytes = bytes_at(offset, 20);
    if (bytes.size() < 2) ends_at(offset + bytes.size());
    const int64_t marker = byte_at(bytes, 1);
    if (byte_at(bytes, 0) != 0xff || marker == 0xff || marker == 0) {
      ++offset;
      continue;
    }
    if (stands_alone(marker)) {
      offset += 2;
      continue;
    }
    if (marker == 0xda || marker == 0xd9) {
      if (header.components == 0) damaged("no frame header");
      return header;
    }
    if (bytes.size() < 4) ends_at(offset + bytes.size());
    const int64_t length = big_endian16(bytes, 2);
    if (length < 2) damaged("a segment without length");
    if (is_frame(marker) && header.components == 0) {
      if (bytes.size() < 10) ends_at(offset + bytes.size());
      read_frame(bytes.substr(2), header);
      if (header.components != 4) return header;
    }
    if (marker == 0xee && bytes.size() > 9 && bytes.substr(4, 5) == "Adobe") header.adobe = true;
    offset += 2 + static_cast<size_t>(length);
  }
  damaged("no picture after " + std::to_string(kMostSteps) + " segments");
}

void decode_jpeg(std::string_view file, const Placement& placement) {
  const JpegHeader header = jpeg_header([&](size_t offset, size_t count) {
    return offset < file.size() ? file.substr(offset, count) : std::string_view();
  });
  const int64_t pixels = header.size.height * header.size.width;
  if (pixels / kMostPixelsPerByte > static_cast<int64_t>(file.size())) ends_at(file.size());

  const std::span<uint8_t> planes = placement(header.size);
  if (header.components == 1) {
    decompress(file, header.size, TJPF_GRAY, planes);
    return;
  }
  const bool ink = header.components == 4;
  const std::span<uint8_t> interleaved = scratch(static_cast<size_t>(pixels * (ink ? 4 : 3)));
  decompress(file, header.size, ink ? TJPF_CMYK : TJPF_RGB, interleaved);
  if (ink) {
    ink_to_planes(interleaved, header.adobe, pixels, planes);
  } else {
    to_planes(interleaved.data(), {3, 1}, pixels, planes);
  }
}

}  // namespace lockstep::data
