#include "lockstep/data/decode.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include <fcntl.h>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/text.h"
#include "lockstep/data/internal/formats.h"
#include "lockstep/data/internal/memory_gate.h"
#include "lockstep/data/internal/thread_buffer.h"
#include "lockstep/device/inventory.h"

namespace lockstep::data {
namespace {

struct Format {
  const char* name;
  std::array<std::string_view, 4> endings;
  bool (*fits)(std::string_view head);
  ImageSize (*size)(const ByteWindow& bytes_at);
  Decoding (*open)(std::string_view file);
};

bool is_pnm(std::string_view head) {
  return head.size() > 2 && head[0] == 'P' && head[1] >= '1' && head[1] <= '7' &&
         std::string_view(" \t\r\n#").find(head[2]) != std::string_view::npos;
}

// Up to four samples of 16 bits per pixel.
template <ImageSize (*size_of)(const ByteWindow&),
          void (*decode)(std::string_view file, const PixelSink& sink)>
Decoding open_pixels(std::string_view file) {
  const ImageSize size = size_of(window_of(file));
  return {8 * size.height * size.width, [file](const PixelSink& sink) { decode(file, sink); }};
}

constexpr std::array<Format, 6> kFormats{{
    {"PNG",
     {"png"},
     [](std::string_view head) { return head.starts_with("\x89PNG\r\n\x1a\n"); },
     png_size,
     open_pixels<png_size, decode_png>},
    {"JPEG",
     {"jpg", "jpeg", "jpe", "jfif"},
     [](std::string_view head) { return head.starts_with("\xff\xd8\xff"); },
     jpeg_size,
     open_pixels<jpeg_size, decode_jpeg>},
    {"BMP",
     {"bmp", "dib"},
     [](std::string_view head) { return head.starts_with("BM"); },
     bmp_size,
     open_pixels<bmp_size, decode_bmp>},
    {"PPM", {"ppm", "pgm", "pbm", "pnm"}, is_pnm, pnm_size, open_pixels<pnm_size, decode_pnm>},
    {"TIFF",
     {"tif", "tiff"},
     [](std::string_view head) {
       // The second two are BigTIFF, for files of more than 4 GB.
       constexpr std::array<std::string_view, 4> kMarks{
           {{"II*\0", 4}, {"MM\0*", 4}, {"II+\0", 4}, {"MM\0+", 4}}};
       return std::find(kMarks.begin(), kMarks.end(), head.substr(0, 4)) != kMarks.end();
     },
     tiff_size,
     open_tiff},
    {"WebP",
     {"webp"},
     [](std::string_view head) {
       return head.starts_with("RIFF") && head.size() >= 12 && head.substr(8, 4) == "WEBP";
     },
     webp_size,
     open_pixels<webp_size, decode_webp>},
}};

// Not supported, but often found under the names of supported formats.
struct OtherFormat {
  size_t at;
  std::string_view signature;
  const char* what;
};
constexpr std::array<OtherFormat, 9> kOthers{
    {{0, "GIF8", "a GIF"},
     {0, "<", "a text file (HTML or XML)"},
     {0, "version https://", "a pointer of Git LFS; run git lfs pull"},
     {4, "ftypavi", "an AVIF"},
     {4, "ftyp", "a HEIC or a video"},
     {4, "jP  ", "a JPEG 2000"},
     {0, "%PDF", "a PDF"},
     {0, "PK\3\4", "a ZIP archive"},
     {0, "8BPS", "a Photoshop file"}}};

const Format* format_of_name(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || name.size() - dot > 5 || name.size() - dot < 2) return nullptr;
  const std::string ending = lower(name.substr(dot + 1));
  for (const Format& format : kFormats) {
    if (std::find(format.endings.begin(), format.endings.end(), ending) != format.endings.end())
      return &format;
  }
  return nullptr;
}

// Well-known data sets, such as ImageNet, have images of one format under the name of another. The content
// decides, as in Pillow; the name only says what was expected if it is no image.
const Format& format_of_content(std::string_view name, std::string_view head) {
  const Format* expected = format_of_name(name);
  if (expected == nullptr) throw DecodeError("its name has no image ending");
  if (head.empty()) throw DecodeError("the file is empty");
  for (const Format& format : kFormats) {
    if (format.fits(head)) return format;
  }
  if (const std::string other = other_format(head); !other.empty())
    throw DecodeError("it is not a " + std::string(expected->name) + ", but " + other);
  if (head.size() < 8) ends_at(expected->name, head.size());
  throw DecodeError("it is not a " + std::string(expected->name));
}

// Smaller images do not wait.
constexpr int64_t kSmallImage = int64_t{16} << 20;

// Memory belongs to the process, so all queues share one gate.
MemoryGate& large_images() {
  static MemoryGate gate(device::memory_limit() / 4);
  return gate;
}

// Entered while a large image is decoded. Memory kept for the thread's next image is freed before others are
// let in.
class LargeImage {
 public:
  explicit LargeImage(int64_t bytes) : pass_(large_images(), bytes) {}
  ~LargeImage() { scratch(0); }
  LargeImage(const LargeImage&) = delete;
  LargeImage& operator=(const LargeImage&) = delete;

 private:
  MemoryPass pass_;
};

}  // namespace

std::string misnamed(std::string_view head) {
  for (const Format& format : kFormats) {
    // Two letters, with which also texts begin.
    if (format.size == bmp_size || format.size == pnm_size || !format.fits(head)) continue;
    return "it is a " + std::string(format.name) + ", but its name does not end in ." +
           std::string(format.endings.front());
  }
  return "";
}

std::string other_format(std::string_view head) {
  for (const OtherFormat& other : kOthers) {
    if (head.size() > other.at && head.substr(other.at).starts_with(other.signature)) return other.what;
  }
  return "";
}

std::string image_endings() {
  std::string endings;
  for (const Format& format : kFormats) {
    for (const std::string_view ending : format.endings) {
      if (!ending.empty()) endings += (endings.empty() ? "." : ", .") + std::string(ending);
    }
  }
  return endings;
}

bool is_image_name(std::string_view name) { return format_of_name(name) != nullptr; }

void check_size(const ImageSize& size) {
  const std::string text = std::to_string(size.width) + "x" + std::to_string(size.height);
  if (size.width <= 0 || size.height <= 0) throw DecodeError("it has no pixels (" + text + ")");
  if (size.height > kMostPixels / size.width)
    throw DecodeError("it has " + text + " pixels, more than the maximum of " + with_commas(kMostPixels));
  if (std::max(size.width, size.height) > kMostSide)
    throw DecodeError("it has " + text + " pixels, but a side may have at most " + with_commas(kMostSide));
}

void ends_at(const char* format, size_t offset) {
  throw DecodeError(std::string(format) + " ends at byte " + std::to_string(offset));
}

std::span<uint8_t> scratch(size_t bytes) {
  thread_local ThreadBuffer memory;
  return memory.of(bytes);
}

uint32_t little_endian(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = bytes.size(); i > 0; --i) value = value << 8 | static_cast<uint8_t>(bytes[i - 1]);
  return value;
}

uint32_t big_endian(std::string_view bytes) {
  uint32_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<uint8_t>(byte);
  return value;
}

ByteWindow window_of(std::string_view bytes) {
  return [bytes](size_t offset, size_t count) {
    return offset < bytes.size() ? bytes.substr(offset, count) : std::string_view();
  };
}

ByteWindow window_from(const ByteWindow& bytes_at, size_t begin) {
  return [&bytes_at, begin](size_t offset, size_t count) { return bytes_at(begin + offset, count); };
}

void decode(std::string_view name, std::string_view file, const PixelSink& sink) {
  const Format& format = format_of_content(name, file);
  const Decoding decoding = format.open(file);
  std::optional<LargeImage> large;
  if (decoding.bytes > kSmallImage) large.emplace(decoding.bytes);
  decoding.run(sink);
}

ImageSize image_size_of(std::string_view name, const ByteWindow& bytes_at) {
  return format_of_content(name, bytes_at(0, 16)).size(bytes_at);
}

ImageSize stored_size(std::string_view name, const ReadAt& read_at) {
  std::array<char, kMostWindow> head, window;
  const size_t have = read_at(0, head);
  return image_size_of(name, [&](size_t offset, size_t count) -> std::string_view {
    count = std::min(count, window.size());
    if (offset + count <= have) return std::string_view(head.data(), have).substr(offset, count);
    return {window.data(), read_at(static_cast<int64_t>(offset), std::span(window).first(count))};
  });
}

ImageSize stored_size(const std::string& path) {
  const OpenFile file(path, O_RDONLY);
  return stored_size(
      path, [&](int64_t offset, std::span<char> destination) { return file.read_at(offset, destination); });
}

}  // namespace lockstep::data
