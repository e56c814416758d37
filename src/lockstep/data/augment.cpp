#include <algorithm>
#include <charconv>
#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/base/seed.h"
#include "lockstep/base/text.h"
#include "lockstep/data/transform.h"

namespace lockstep::data {
namespace {

constexpr int64_t kEighthOfShorterSide = -1;

int64_t parse_shift(std::string_view text) {
  int64_t pixels = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), pixels);
  if (code != std::errc{} || end != text.data() + text.size() || pixels < 1 || pixels > 65535) {
    throw Error(ErrorCode::invalid_option, "--augment shift=\"" + std::string(text) + "\" is no number of pixels from 1 to 65,535",
                "for instance --augment flip,shift=4");
  }
  return pixels;
}

void mirror_rows(uint8_t* plane, int64_t height, int64_t width) {
  for (int64_t y = 0; y < height; ++y) std::reverse(plane + y * width, plane + (y + 1) * width);
}

void mirror_columns(uint8_t* plane, int64_t height, int64_t width) {
  for (int64_t y = 0; y < height / 2; ++y) std::swap_ranges(plane + y * width, plane + (y + 1) * width, plane + (height - 1 - y) * width);
}

void shift_row(uint8_t* row, int64_t width, int64_t right) {
  const auto moved = static_cast<size_t>(width - std::abs(right));
  const auto empty = static_cast<size_t>(std::abs(right));
  std::memmove(row + std::max<int64_t>(right, 0), row + std::max<int64_t>(-right, 0), moved);
  std::memset(right > 0 ? row : row + moved, 0, empty);
}

void shift_plane(uint8_t* plane, int64_t height, int64_t width, int64_t down, int64_t right) {
  const auto moved = static_cast<size_t>((height - std::abs(down)) * width);
  const auto empty = static_cast<size_t>(std::abs(down) * width);
  std::memmove(plane + std::max<int64_t>(down, 0) * width, plane + std::max<int64_t>(-down, 0) * width, moved);
  std::memset(down > 0 ? plane : plane + moved, 0, empty);
  for (int64_t y = 0; y < height && right != 0; ++y) shift_row(plane + y * width, width, right);
}

int64_t draw_shift(Random& random, int64_t most, int64_t length) {
  const int64_t drawn = static_cast<int64_t>(random.below(static_cast<uint64_t>(2 * most + 1))) - most;
  return std::clamp(drawn, -length, length);
}

}  // namespace

Augment Augment::parse(std::string_view text) {
  Augment augment;
  if (text.empty() || text == "none") return augment;
  for (const std::string& word : split(text, ',')) {
    if (word == "flip") {
      augment.flip = true;
    } else if (word == "flip-vertical") {
      augment.flip_vertical = true;
    } else if (word == "shift") {
      augment.shift = kEighthOfShorterSide;
    } else if (word.starts_with("shift=")) {
      augment.shift = parse_shift(std::string_view(word).substr(6));
    } else {
      const std::string near = nearest(word, {"none", "flip", "flip-vertical", "shift"});
      throw Error(ErrorCode::invalid_option, "--augment has no \"" + word + "\"",
                  (near.empty() ? "" : "did you mean " + near + "? ") + "it takes none, or a comma list of flip, flip-vertical, shift, shift=PIXELS");
    }
  }
  return augment;
}

void Augment::apply(std::span<uint8_t> picture, const PictureFormat& format, uint64_t seed) const {
  // Every number is drawn whether it is used or not, so that one option does not change what another draws.
  Random random(seed);
  const bool mirror = (random.next() >> 63) != 0;
  const bool mirror_vertically = (random.next() >> 63) != 0;
  const int64_t most = shift == kEighthOfShorterSide ? std::min(format.height, format.width) / 8 : shift;
  const int64_t down = draw_shift(random, most, format.height);
  const int64_t right = draw_shift(random, most, format.width);
  for (int64_t c = 0; c < format.channels; ++c) {
    uint8_t* plane = picture.data() + c * format.height * format.width;
    if (flip && mirror) mirror_rows(plane, format.height, format.width);
    if (flip_vertical && mirror_vertically) mirror_columns(plane, format.height, format.width);
    if (most != 0) shift_plane(plane, format.height, format.width, down, right);
  }
}

}  // namespace lockstep::data
