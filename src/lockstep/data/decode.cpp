#include "lockstep/data/decode.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <new>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "lockstep/base/text.h"
#include "lockstep/data/internal/formats.h"

namespace lockstep::data {
namespace {

constexpr size_t kFirstRead = 4096;

enum class Format { png, jpeg, unknown };

struct Signature {
  std::string_view bytes;
  std::string_view name;
  Format format;
};

// The two that are read, and those that are often found under their names.
constexpr std::array<Signature, 8> kSignatures{{
    {"\x89PNG\r\n\x1a\n", "PNG", Format::png},
    {"\xff\xd8\xff", "JPEG", Format::jpeg},
    {"GIF8", "GIF", Format::unknown},
    {"BM", "BMP", Format::unknown},
    {"RIFF", "WebP", Format::unknown},
    {"II*", "TIFF", Format::unknown},
    {"MM", "TIFF", Format::unknown},
    {"<", "text file (HTML or XML)", Format::unknown},
}};

Format format_of_name(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || name.size() - dot > 5) return Format::unknown;
  const std::string ending = lower(name.substr(dot + 1));
  if (ending == "png") return Format::png;
  if (ending == "jpg" || ending == "jpeg") return Format::jpeg;
  return Format::unknown;
}

// The format of the content, which must be the one the name promises.
Format checked_format(std::string_view name, std::string_view head) {
  const Format expected = format_of_name(name);
  const std::string_view expected_name = expected == Format::png ? "PNG" : "JPEG";
  if (head.empty()) throw DecodeError("the file is empty");
  for (const Signature& signature : kSignatures) {
    if (!head.starts_with(signature.bytes)) continue;
    if (signature.format == expected) return expected;
    const std::string what = "holds a " + std::string(signature.name) + ", not a " + std::string(expected_name);
    throw DecodeError(signature.format == Format::unknown ? what : what + "; rename it");
  }
  if (head.size() < 8) throw DecodeError(std::string(expected_name) + " ends at byte " + std::to_string(head.size()));
  throw DecodeError("is not a " + std::string(expected_name));
}

class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) throw errno_error(errno, "open", path);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() { ::close(descriptor_); }

  // Fewer bytes than asked for only at the file's end.
  size_t read_at(size_t offset, char* destination, size_t count) const {
    size_t have = 0;
    while (have < count) {
      const ssize_t got = ::pread(descriptor_, destination + have, count - have, static_cast<off_t>(offset + have));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw errno_error(errno, "read", path_);
      if (got == 0) break;
      have += static_cast<size_t>(got);
    }
    return have;
  }

 private:
  const std::string& path_;
  int descriptor_;
};

}  // namespace

bool is_picture_name(std::string_view name) { return format_of_name(name) != Format::unknown; }

void check_size(const ImageSize& size) {
  const std::string text = std::to_string(size.width) + "x" + std::to_string(size.height);
  if (size.width <= 0 || size.height <= 0) throw DecodeError("has no pixels (" + text + ")");
  if (size.height > kMostPixels / size.width) throw DecodeError("is " + text + ", more than the " + with_commas(kMostPixels) + " pixels allowed");
}

std::span<uint8_t> scratch(size_t bytes) {
  constexpr size_t kKeptBytes = size_t{16} << 20;
  thread_local std::unique_ptr<uint8_t[]> memory;
  thread_local size_t capacity = 0;
  if (capacity < bytes || capacity > kKeptBytes) {
    memory.reset();
    capacity = 0;
    memory = std::make_unique_for_overwrite<uint8_t[]>(bytes);
    capacity = bytes;
  }
  return {memory.get(), bytes};
}

void to_planes(const uint8_t* interleaved, PixelLayout layout, int64_t pixels, std::span<uint8_t> planes) {
  if (layout.pixel_bytes == 3 && layout.channel_bytes == 1) {
    uint8_t* red = planes.data();
    uint8_t* green = red + pixels;
    uint8_t* blue = green + pixels;
    for (int64_t i = 0; i < pixels; ++i, interleaved += 3) {
      red[i] = interleaved[0];
      green[i] = interleaved[1];
      blue[i] = interleaved[2];
    }
    return;
  }
  const int64_t channels = static_cast<int64_t>(planes.size()) / pixels;
  for (int64_t c = 0; c < channels; ++c) {
    uint8_t* plane = planes.data() + c * pixels;
    const uint8_t* sample = interleaved + c * layout.channel_bytes;
    for (int64_t i = 0; i < pixels; ++i) plane[i] = sample[i * layout.pixel_bytes];
  }
}

void decode(std::string_view name, std::string_view file, const Placement& placement) {
  if (checked_format(name, file) == Format::png) {
    decode_png(file, placement);
  } else {
    decode_jpeg(file, placement);
  }
}

ImageSize stored_size(const std::string& path) {
  const OpenFile file(path);
  std::array<char, kFirstRead> head;
  const size_t have = file.read_at(0, head.data(), head.size());
  const std::string_view start(head.data(), have);
  if (checked_format(path, start) == Format::png) return png_size(start);

  std::array<char, kFirstRead> window;
  return jpeg_header([&](size_t offset, size_t count) -> std::string_view {
           count = std::min(count, window.size());
           if (offset + count <= have) return start.substr(offset, count);
           return {window.data(), file.read_at(offset, window.data(), count)};
         }).size;
}

}  // namespace lockstep::data
