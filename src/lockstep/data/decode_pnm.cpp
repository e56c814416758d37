// PGM and PPM in binary form, P5 and P6: three numbers as text, then the samples.
#include <cctype>

#include "lockstep/data/internal/formats.h"

namespace lockstep::data {
namespace {

struct PnmHeader {
  ImageSize size;
  int64_t most = 0;  // the level of white
  size_t pixels_at = 0;
};

[[noreturn]] void no_header(std::string_view bytes) {
  if (bytes.size() < kMostWindow) ends_at("PPM", bytes.size());
  throw DecodeError("PPM is damaged (no header)");
}

// The next number after blanks and comments; a comment goes from # to the end of the line.
int64_t next_number(std::string_view bytes, size_t& at) {
  while (at < bytes.size() &&
         (std::isspace(static_cast<unsigned char>(bytes[at])) != 0 || bytes[at] == '#')) {
    if (bytes[at] == '#') {
      while (at < bytes.size() && bytes[at] != '\n' && bytes[at] != '\r') ++at;
    } else {
      ++at;
    }
  }
  int64_t value = 0;
  const size_t begin = at;
  for (; at < bytes.size() && bytes[at] >= '0' && bytes[at] <= '9'; ++at) {
    value = value * 10 + (bytes[at] - '0');
    if (value > int64_t{1} << 32) throw DecodeError("PPM is damaged (a number with too many digits)");
  }
  if (at == bytes.size()) no_header(bytes);
  if (at == begin) throw DecodeError("PPM is damaged (a number is missing)");
  return value;
}

PnmHeader pnm_header(const ByteWindow& bytes_at) {
  const std::string_view bytes = bytes_at(0, kMostWindow);
  if (bytes.size() < 3) no_header(bytes);
  if (bytes[1] != '5' && bytes[1] != '6')
    throw DecodeError("it is a PNM of kind P" + std::string(1, bytes[1]) + "; only P5 and P6 are supported");
  PnmHeader header;
  header.pixels_at = 2;
  header.size.channels = bytes[1] == '5' ? 1 : 3;
  header.size.width = next_number(bytes, header.pixels_at);
  header.size.height = next_number(bytes, header.pixels_at);
  header.most = next_number(bytes, header.pixels_at);
  ++header.pixels_at;
  check_size(header.size);
  if (header.most < 1 || header.most > 65535)
    throw DecodeError("PPM is damaged (levels up to " + std::to_string(header.most) + ")");
  return header;
}

}  // namespace

ImageSize pnm_size(const ByteWindow& bytes_at) { return pnm_header(bytes_at).size; }

void decode_pnm(std::string_view file, const PixelSink& sink) {
  const PnmHeader header = pnm_header(window_of(file));
  const size_t sample_bytes = header.most > 255 ? 2 : 1;
  const auto samples = static_cast<size_t>(header.size.bytes());
  if (header.pixels_at > file.size() || (file.size() - header.pixels_at) / sample_bytes < samples)
    ends_at("PPM", file.size());
  const char* from = file.data() + header.pixels_at;
  if (header.most == 255)
    return give(interleaved(reinterpret_cast<const uint8_t*>(from), header.size, header.size.channels), sink);
  const std::span<uint8_t> levels = scratch(samples);
  for (size_t i = 0; i < samples; ++i) {
    const int64_t value = std::min<int64_t>(big_endian({from + i * sample_bytes, sample_bytes}), header.most);
    levels[i] = static_cast<uint8_t>((value * 255 + header.most / 2) / header.most);
  }
  give(interleaved(levels.data(), header.size, header.size.channels), sink);
}

}  // namespace lockstep::data
