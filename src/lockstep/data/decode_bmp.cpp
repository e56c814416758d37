// Windows bitmaps: a file header of 14 bytes, a header of 12 or at least 40 bytes, a palette, and rows padded
// to 4 bytes or in runs (RLE), the bottom row first.
#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "lockstep/data/internal/formats.h"

namespace lockstep::data {
namespace {

constexpr size_t kFileHeader = 14;
constexpr uint32_t kNotCompressed = 0, kRuns8 = 1, kRuns4 = 2, kMasks = 3, kMasksWithAlpha = 6;

struct BmpHeader {
  ImageSize size;
  uint32_t bits = 0;
  bool lowest_first = true;
  bool in_runs = false;
  size_t pixels_at = 0;
  std::array<uint32_t, 3> masks{};  // for red, green, blue, with 16 or 32 bits
  std::array<std::array<uint8_t, 3>, 256> palette{};
};

std::array<uint8_t, 3> colour_of(std::string_view entry) {
  return {static_cast<uint8_t>(entry[2]), static_cast<uint8_t>(entry[1]), static_cast<uint8_t>(entry[0])};
}

void read_palette(std::string_view bytes, size_t at, size_t entry_bytes, size_t colours, BmpHeader& header) {
  bool grey = true;
  for (size_t i = 0; i < colours; ++i, at += entry_bytes) {
    if (at + entry_bytes > bytes.size()) ends_at("BMP", bytes.size());
    header.palette[i] = colour_of(bytes.substr(at, entry_bytes));
    grey &= header.palette[i][0] == header.palette[i][1] && header.palette[i][1] == header.palette[i][2];
  }
  header.size.channels = grey ? 1 : 3;
}

BmpHeader bmp_header(const ByteWindow& bytes_at) {
  // Headers of up to 124 bytes, masks and a palette of 256.
  const std::string_view bytes = bytes_at(0, kMostWindow);
  if (bytes.size() < kFileHeader + 12) ends_at("BMP", bytes.size());
  const size_t header_bytes = little_endian(bytes.substr(14, 4));
  const bool old = header_bytes == 12;
  if (!old && (header_bytes < 40 || header_bytes > 124))
    throw DecodeError("BMP is damaged (a header of " + std::to_string(header_bytes) + " bytes)");
  if (bytes.size() < kFileHeader + header_bytes) ends_at("BMP", bytes.size());

  BmpHeader header;
  header.pixels_at = little_endian(bytes.substr(10, 4));
  header.size.channels = 3;
  uint32_t compression = kNotCompressed, colours = 0;
  if (old) {
    header.size.width = little_endian(bytes.substr(18, 2));
    header.size.height = little_endian(bytes.substr(20, 2));
    header.bits = little_endian(bytes.substr(24, 2));
  } else {
    const auto height = static_cast<int32_t>(little_endian(bytes.substr(22, 4)));
    header.size.width = static_cast<int32_t>(little_endian(bytes.substr(18, 4)));
    header.size.height = height < 0 ? -int64_t{height} : height;
    header.lowest_first = height > 0;
    header.bits = little_endian(bytes.substr(28, 2));
    compression = little_endian(bytes.substr(30, 4));
    colours = little_endian(bytes.substr(46, 4));
  }
  check_size(header.size);
  if (header.bits != 1 && header.bits != 4 && header.bits != 8 && header.bits != 16 && header.bits != 24 &&
      header.bits != 32) {
    throw DecodeError("it is a BMP with " + std::to_string(header.bits) +
                      " bits per pixel; only 1, 4, 8, 16, 24 and 32 are supported");
  }
  size_t after = kFileHeader + header_bytes;
  if (header.bits == 16) header.masks = {0x7c00, 0x03e0, 0x001f};
  if (header.bits == 32) header.masks = {0xff0000, 0xff00, 0xff};
  if ((compression == kMasks || compression == kMasksWithAlpha) && (header.bits == 16 || header.bits == 32)) {
    const size_t at = kFileHeader + 40;
    if (bytes.size() < at + 12) ends_at("BMP", bytes.size());
    for (size_t c = 0; c < 3; ++c) header.masks[c] = little_endian(bytes.substr(at + 4 * c, 4));
    if (header_bytes == 40) after += compression == kMasks ? 12 : 16;
  } else if (compression == kRuns8 || compression == kRuns4) {
    if (header.bits != (compression == kRuns8 ? 8U : 4U))
      throw DecodeError("BMP is damaged (runs of " + std::to_string(header.bits) + " bits per pixel)");
    header.in_runs = true;
  } else if (compression != kNotCompressed) {
    throw DecodeError("it is a BMP with compression " + std::to_string(compression) +
                      ", which is not supported; save it without compression, or as PNG");
  }
  // Some programs leave out where the pixels are, some write the place of the palette instead, and some write
  // a short palette without its number of colours.
  const bool says_place = header.pixels_at > (header.bits <= 8 ? after : 0);
  if (header.bits <= 8) {
    const size_t most = size_t{1} << header.bits, entry_bytes = old ? 3 : 4;
    size_t count = colours == 0 ? most : std::min<size_t>(colours, most);
    if (says_place) count = std::min(count, (header.pixels_at - after) / entry_bytes);
    read_palette(bytes, after, entry_bytes, count, header);
    after += count * entry_bytes;
  }
  if (!says_place) header.pixels_at = after;
  return header;
}

// The bits that a mask selects, scaled to a level.
uint8_t masked(uint32_t value, uint32_t mask) {
  if (mask == 0) return 0;
  const int shift = std::countr_zero(mask);
  const uint64_t most = mask >> shift;
  return static_cast<uint8_t>(((value & mask) >> shift) * uint64_t{255} / most);
}

void read_row(std::string_view row, const BmpHeader& header, uint8_t* to) {
  const int64_t width = header.size.width, channels = header.size.channels;
  for (int64_t x = 0; x < width; ++x, to += channels) {
    const auto at = static_cast<size_t>(x);
    if (header.bits == 24) {
      const auto colour = colour_of(row.substr(3 * at, 3));
      std::copy(colour.begin(), colour.end(), to);
    } else if (header.bits > 8) {
      const uint32_t value = little_endian(row.substr(at * header.bits / 8, header.bits / 8));
      for (size_t c = 0; c < 3; ++c) to[c] = masked(value, header.masks[c]);
    } else {
      const size_t bit = at * header.bits;
      const auto byte = static_cast<uint8_t>(row[bit / 8]);
      const size_t index = byte >> (8 - header.bits - bit % 8) & ((1u << header.bits) - 1);
      std::copy_n(header.palette[index].begin(), channels, to);
    }
  }
}

// Indices into the palette, as pairs of bytes: a count and what is repeated, or 0 and an order: the next row,
// the end, a jump, or a count of indices that follow. With 4 bits a byte has two indices. Pixels that are
// left out are of the first colour. Source: Microsoft, "Bitmap Compression".
std::vector<uint8_t> read_runs(std::string_view file, const BmpHeader& header) {
  constexpr uint8_t kNextRow = 0, kEnd = 1, kJump = 2;
  const auto width = static_cast<size_t>(header.size.width), height = static_cast<size_t>(header.size.height);
  std::vector<uint8_t> indices(width * height);
  size_t at = header.pixels_at, x = 0, y = 0;
  const auto byte_at = [&](size_t place) {
    if (place >= file.size()) ends_at("BMP", file.size());
    return static_cast<uint8_t>(file[place]);
  };
  const auto put = [&](size_t place, bool upper) {
    const uint8_t byte = byte_at(place);
    const uint8_t index = header.bits == 8 ? byte : upper ? byte >> 4 : byte & 15;
    if (x < width) indices[y * width + x] = index;
    ++x;
  };
  while (y < height) {
    const uint8_t count = byte_at(at), order = byte_at(at + 1);
    at += 2;
    if (count > 0) {
      for (size_t i = 0; i < count; ++i) put(at - 1, i % 2 == 0);
    } else if (order == kNextRow) {
      x = 0;
      ++y;
    } else if (order == kEnd) {
      break;
    } else if (order == kJump) {
      x += byte_at(at);
      y += byte_at(at + 1);
      at += 2;
    } else {
      for (size_t i = 0; i < order; ++i) put(at + i * header.bits / 8, i % 2 == 0);
      const size_t bytes = (order * header.bits + 7U) / 8;
      at += bytes + bytes % 2;
    }
  }
  return indices;
}

// A damaged file of few bytes may not promise more.
constexpr int64_t kMostPixelsPerByte = 1024;

void decode_runs(std::string_view file, const BmpHeader& header, const PixelSink& sink) {
  if (header.size.height * header.size.width / kMostPixelsPerByte > static_cast<int64_t>(file.size()))
    ends_at("BMP", file.size());
  const std::vector<uint8_t> indices = read_runs(file, header);
  const auto width = static_cast<size_t>(header.size.width), height = static_cast<size_t>(header.size.height),
             channels = static_cast<size_t>(header.size.channels);
  const std::span<uint8_t> pixels = scratch(static_cast<size_t>(header.size.bytes()));
  for (size_t y = 0; y < height; ++y) {
    uint8_t* to = pixels.data() + (header.lowest_first ? height - 1 - y : y) * width * channels;
    for (size_t x = 0; x < width; ++x, to += channels)
      std::copy_n(header.palette[indices[y * width + x]].begin(), channels, to);
  }
  give(interleaved(pixels.data(), header.size, header.size.channels), sink);
}

}  // namespace

ImageSize bmp_size(const ByteWindow& bytes_at) { return bmp_header(bytes_at).size; }

void decode_bmp(std::string_view file, const PixelSink& sink) {
  const BmpHeader header = bmp_header(window_of(file));
  if (header.in_runs) return decode_runs(file, header, sink);
  const auto row_bytes = static_cast<size_t>((header.size.width * header.bits + 31) / 32 * 4);
  const auto height = static_cast<size_t>(header.size.height);
  // Some programs omit the padding of the last row.
  const size_t last_row = static_cast<size_t>((header.size.width * header.bits + 7) / 8);
  if (header.pixels_at > file.size() || file.size() - header.pixels_at < row_bytes * (height - 1) + last_row)
    ends_at("BMP", file.size());
  const std::span<uint8_t> pixels = scratch(static_cast<size_t>(header.size.bytes()));
  for (size_t y = 0; y < height; ++y) {
    const size_t to = header.lowest_first ? height - 1 - y : y;
    read_row(file.substr(header.pixels_at + y * row_bytes, row_bytes), header,
             pixels.data() + to * static_cast<size_t>(header.size.width * header.size.channels));
  }
  give(interleaved(pixels.data(), header.size, header.size.channels), sink);
}

}  // namespace lockstep::data
