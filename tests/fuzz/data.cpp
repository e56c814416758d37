// The readers of images, caches and data files.
#include <array>
#include <filesystem>
#include <fstream>

#include <zlib.h>

#include "driver.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/data/decode.h"
#include "lockstep/data/image_cache.h"
#include "lockstep/data/sources.h"
#include "lockstep/data/transform.h"
#include "lockstep/io/copy.h"

using namespace lockstep;
using namespace lockstep::data;

namespace {

void write(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

class SmallTaker : public PixelTaker {
 public:
  explicit SmallTaker(const ImageFormat& format)
      : format_(format), pixels_(static_cast<size_t>(format.size().bytes())) {}
  Decode decode() const override { return format_.decode; }
  double least_scale(const ImageSize& size) const override { return data::least_scale(size, format_); }
  void take(const Pixels& pixels) override { to_format(pixels, format_, pixels_); }

 private:
  const ImageFormat& format_;
  std::vector<uint8_t> pixels_;
};

// Decoded as it is stored, or into a format, as the input decides.
void read_image(const char* name, std::string_view input) {
  ImageSize told, found;
  std::string refused;
  try {
    told = image_size_of(name, [&](size_t offset, size_t count) {
      return offset < input.size() ? input.substr(offset, std::min(count, kMostWindow)) : std::string_view();
    });
  } catch (const DecodeError& error) {
    refused = error.what();
  }
  std::vector<uint8_t> memory;
  const auto place = [&](const ImageSize& size) {
    found = size;
    memory.resize(static_cast<size_t>(size.bytes()));
    return std::span(memory);
  };
  const ImageFormat format{.channels = input.size() % 2 == 0 ? 3 : 1,
                           .height = 20,
                           .width = 31,
                           .resize = static_cast<Resize>(input.size() % 3),
                           .decode = input.size() % 5 < 3 ? Decode::fast : Decode::exact};
  SmallTaker taker(format);
  if (input.size() % 7 < 4) {
    decode(name, input, place);
  } else {
    decode(name, input, PixelSink(place, &taker));
  }
  // A PNG may have EXIF after its pixels.
  const ImageSize turned{told.channels, told.width, told.height};
  const bool is_png = input.starts_with("\x89PNG");
  const bool differs = !memory.empty() && found != told && !(is_png && found == turned);
  if (!refused.empty() || differs)
    throw std::runtime_error("the size told beforehand is another: " + refused);
}

fuzz::Reader image_reader(const char* name, const char* file) {
  return {name, [file](std::string_view input) { read_image(file, input); }};
}

// Chunks with a wrong checksum are refused before anything else is checked.
void repair_png(std::string& input) {
  const auto number = [&](size_t at) {
    uint32_t value = 0;
    for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(input[at + i]);
    return value;
  };
  for (size_t at = 8; at + 12 <= input.size();) {
    const uint64_t length = number(at);
    if (at + 12 + length > input.size()) return;
    const auto sum = static_cast<uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(input.data() + at + 4), static_cast<uInt>(length + 4)));
    for (size_t i = 0; i < 4; ++i) input[at + 8 + length + i] = static_cast<char>(sum >> (24 - 8 * i));
    at += 12 + length;
  }
}

// Every block is given the checksum that it needs.
void repair_tar(std::string& input) {
  constexpr size_t kBlock = 512, kSum = 148, kSumBytes = 8;
  for (size_t at = 0; at + kBlock <= input.size(); at += kBlock) {
    if (input.compare(at + 257, 5, "ustar") != 0) continue;
    std::fill_n(input.begin() + static_cast<std::ptrdiff_t>(at + kSum), kSumBytes, ' ');
    uint32_t sum = 0;
    for (size_t i = 0; i < kBlock; ++i) sum += static_cast<uint8_t>(input[at + i]);
    for (size_t digit = 0; digit < 6; ++digit)
      input[at + kSum + digit] = static_cast<char>('0' + (sum >> (15 - 3 * digit) & 7));
    input[at + kSum + 6] = '\0';
  }
}

void read_all(const std::filesystem::path& path) {
  const Dataset dataset = open_source(path, {.on_bad_sample = OnBadSample::skip}).dataset;
  std::vector<uint8_t> memory;
  for (int64_t i = 0; i < std::min<int64_t>(dataset.size(), 50); ++i) {
    const int64_t number_bytes = dataset.store().kind() == SampleKind::sequence ? 4 : 1;
    dataset.store().read_to(i, [&](const ImageSize& size) {
      memory.resize(static_cast<size_t>(size.bytes() * number_bytes));
      return std::span(memory);
    });
  }
}

// The input is the images or, one time in four, the labels of good images; in a folder or in an archive.
void read_idx(std::string_view input) {
  static const std::string labels = [] { return std::string("\0\0\x08\x01\0\0\0\x03\0\1\2", 11); }();
  static const std::string images = [] {
    return std::string("\0\0\x08\x03\0\0\0\x03\0\0\0\x02\0\0\0\x02", 16) + std::string(12, 'x');
  }();
  const auto folder = std::filesystem::path("idx");
  std::filesystem::create_directories(folder);
  const bool as_labels = input.size() % 4 == 3;
  write(folder / "train-images-idx3-ubyte", as_labels ? std::string_view(images) : input);
  write(folder / "train-labels-idx1-ubyte", as_labels ? input : std::string_view(labels));
  const bool packed = input.size() % 3 == 0;
  if (packed) io::copy_files(*io::open_store(folder), *io::open_sink("idx.tar"));
  read_all(packed ? "idx.tar" : folder);
}

void read_file_as(const char* name, std::string_view input) {
  const auto folder = std::filesystem::path("file");
  std::filesystem::create_directories(folder);
  write(folder / name, input);
  read_all(folder / name);
}

void read_csv(std::string_view input) {
  const auto folder = std::filesystem::path("csv");
  for (const char* label : {"a", "b"}) {
    std::filesystem::create_directories(folder / label);
    write(folder / label / "1.csv", label[0] == 'a' ? input : std::string_view("1,2\n3,4\n"));
  }
  read_all(folder);
}

// Three images that need no decoding.
class Three : public Datastore {
 public:
  int64_t size() const override { return 3; }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t) const override { return 0; }
  std::string source(int64_t) const override { return "three"; }
  ImageSize image_size(int64_t) const override { return {1, 2, 2}; }
  void read_to(int64_t, const PixelSink&) const override {}
  uint64_t listing_hash() const override { return 1; }
  uint64_t content_hash() const override { return 1; }
  std::string identity() const override { return "three"; }

 private:
  std::vector<std::string> classes_{"a"};
};

void read_cache(std::string_view input) {
  const auto folder = std::filesystem::path("cache");
  const ImageFormat format{.channels = 1, .height = 2, .width = 2};
  const Three three;
  static const std::filesystem::path path =
      open_image_cache(folder, three, format, CacheUse::make, 1 << 20).cache->path();
  static const std::string good = read_file(path);
  // Bytes of the input that are not zero damage the file, which has the input's length.
  std::string bytes = good.substr(0, input.size());
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(bytes[i] ^ input[i]);
  write(path, bytes);
  const auto opened = open_image_cache(folder, three, format, CacheUse::make, 1 << 20);
  std::array<uint8_t, 4> image{}, again{};
  for (int64_t i = 0; i < 3; ++i) {
    opened.cache->read(i, image);
    opened.cache->write(i, image);
    if (!opened.cache->read(i, again) || image != again)
      throw std::runtime_error("what was written is not read");
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::array readers{
      image_reader("png", "a.png"),
      image_reader("jpeg", "a.jpg"),
      image_reader("bmp", "a.bmp"),
      image_reader("ppm", "a.ppm"),
      image_reader("tiff", "a.tif"),
      image_reader("webp", "a.webp"),
      fuzz::Reader{"cache", read_cache},
      fuzz::Reader{"idx", read_idx},
      fuzz::Reader{"cifar", [](std::string_view input) { read_file_as("data_batch_1.bin", input); }},
      fuzz::Reader{"ts", [](std::string_view input) { read_file_as("a.ts", input); }},
      fuzz::Reader{"csv", read_csv},
      fuzz::Reader{"tar", [](std::string_view input) { read_file_as("a.tar", input); }, repair_tar}};
  readers[0].repair = repair_png;
  return fuzz::run(argc, argv, readers);
}
