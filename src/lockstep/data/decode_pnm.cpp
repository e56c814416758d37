// PBM, PGM and PPM as text (P1 to P3) and in binary form (P4 to P6): two or three numbers as text, then the
// samples. PBM has one bit for each pixel, of which 1 is black, and no level of white.
#include <algorithm>
#include <cctype>

#include "lockstep/data/internal/formats.h"

namespace lockstep::data {
namespace {

struct PnmHeader {
  ImageSize size;
  bool is_text = false;
  bool is_bits = false;
  int64_t most = 0;  // the level of white
  size_t pixels_at = 0;
};

[[noreturn]] void no_header(std::string_view bytes) {
  if (bytes.size() < kMostWindow) ends_at("PPM", bytes.size());
  throw DecodeError("PPM is damaged (no header)");
}

// Over blanks and comments; a comment goes from # to the end of the line.
void skip_blanks(std::string_view bytes, size_t& at) {
  while (at < bytes.size() &&
         (std::isspace(static_cast<unsigned char>(bytes[at])) != 0 || bytes[at] == '#')) {
    if (bytes[at] == '#') {
      while (at < bytes.size() && bytes[at] != '\n' && bytes[at] != '\r') ++at;
    } else {
      ++at;
    }
  }
}

int64_t next_number(std::string_view bytes, size_t& at) {
  skip_blanks(bytes, at);
  int64_t value = 0;
  const size_t begin = at;
  for (; at < bytes.size() && bytes[at] >= '0' && bytes[at] <= '9'; ++at) {
    value = value * 10 + (bytes[at] - '0');
    if (value > int64_t{1} << 32) throw DecodeError("PPM is damaged (a number with too many digits)");
  }
  if (at == begin && at < bytes.size()) throw DecodeError("PPM is damaged (a number is missing)");
  return value;
}

// A number at the end of these bytes may go on after them.
int64_t number_in_header(std::string_view bytes, size_t& at) {
  const int64_t value = next_number(bytes, at);
  if (at == bytes.size()) no_header(bytes);
  return value;
}

PnmHeader pnm_header(const ByteWindow& bytes_at) {
  const std::string_view bytes = bytes_at(0, kMostWindow);
  if (bytes.size() < 3) no_header(bytes);
  if (bytes[1] > '6')
    throw DecodeError("it is a PNM of kind P7 (PAM), which is not supported; save it as PNG");
  PnmHeader header;
  header.pixels_at = 2;
  header.is_text = bytes[1] <= '3';
  header.is_bits = bytes[1] == '1' || bytes[1] == '4';
  header.size.channels = bytes[1] == '3' || bytes[1] == '6' ? 3 : 1;
  header.size.width = number_in_header(bytes, header.pixels_at);
  header.size.height = number_in_header(bytes, header.pixels_at);
  header.most = header.is_bits ? 1 : number_in_header(bytes, header.pixels_at);
  if (!header.is_text) ++header.pixels_at;
  check_size(header.size);
  if (header.most < 1 || header.most > 65535)
    throw DecodeError("PPM is damaged (levels up to " + std::to_string(header.most) + ")");
  return header;
}

uint8_t level_of(int64_t value, int64_t most) {
  return static_cast<uint8_t>((std::min(value, most) * 255 + most / 2) / most);
}

constexpr uint8_t level_of_bit(bool is_black) { return is_black ? 0 : 255; }

// The digits of P1 need no blanks between them.
void read_digits(std::string_view file, const PnmHeader& header, std::span<uint8_t> levels) {
  size_t at = header.pixels_at;
  for (uint8_t& level : levels) {
    skip_blanks(file, at);
    if (at == file.size()) ends_at("PPM", file.size());
    if (!header.is_bits) {
      level = level_of(next_number(file, at), header.most);
      continue;
    }
    const char digit = file[at++];
    if (digit != '0' && digit != '1') throw DecodeError("PPM is damaged (a bit is neither 0 nor 1)");
    level = level_of_bit(digit == '1');
  }
}

// Rows begin with a byte.
void read_bits(std::string_view file, const PnmHeader& header, std::span<uint8_t> levels) {
  const auto width = static_cast<size_t>(header.size.width), row_bytes = (width + 7) / 8;
  for (size_t i = 0; i < levels.size(); ++i) {
    const size_t x = i % width;
    const auto byte = static_cast<uint8_t>(file[header.pixels_at + i / width * row_bytes + x / 8]);
    levels[i] = level_of_bit((byte >> (7 - x % 8) & 1) != 0);
  }
}

void read_binary(std::string_view file, const PnmHeader& header, std::span<uint8_t> levels) {
  const size_t sample_bytes = header.most > 255 ? 2 : 1;
  for (size_t i = 0; i < levels.size(); ++i)
    levels[i] =
        level_of(big_endian(file.substr(header.pixels_at + i * sample_bytes, sample_bytes)), header.most);
}

// The fewest bytes that the samples take: as text a digit each, between blanks.
size_t least_bytes(const PnmHeader& header) {
  const auto samples = static_cast<size_t>(header.size.bytes());
  if (header.is_text) return header.is_bits ? samples : 2 * samples - 1;
  if (header.is_bits) return static_cast<size_t>((header.size.width + 7) / 8 * header.size.height);
  return samples * (header.most > 255 ? 2 : 1);
}

}  // namespace

ImageSize pnm_size(const ByteWindow& bytes_at) { return pnm_header(bytes_at).size; }

void decode_pnm(std::string_view file, const PixelSink& sink) {
  const PnmHeader header = pnm_header(window_of(file));
  if (header.pixels_at > file.size() || file.size() - header.pixels_at < least_bytes(header))
    ends_at("PPM", file.size());
  if (!header.is_text && header.most == 255) {
    const char* from = file.data() + header.pixels_at;
    return give(interleaved(reinterpret_cast<const uint8_t*>(from), header.size, header.size.channels), sink);
  }
  const std::span<uint8_t> levels = scratch(static_cast<size_t>(header.size.bytes()));
  if (header.is_text) {
    read_digits(file, header, levels);
  } else if (header.is_bits) {
    read_bits(file, header, levels);
  } else {
    read_binary(file, header, levels);
  }
  give(interleaved(levels.data(), header.size, header.size.channels), sink);
}

}  // namespace lockstep::data
