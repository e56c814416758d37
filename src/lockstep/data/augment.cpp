#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/seed.h"
#include "lockstep/base/text.h"
#include "lockstep/data/centre.h"
#include "lockstep/data/internal/affine.h"
#include "lockstep/data/internal/color_jitter.h"
#include "lockstep/data/internal/thread_buffer.h"
#include "lockstep/data/internal/trivial_augment.h"
#include "lockstep/data/resample.h"
#include "lockstep/data/transform.h"

namespace lockstep::data {
namespace {

constexpr int64_t kEighthOfShorterSide = -1;

[[noreturn]] void refuse(std::string_view word, const std::string& must_be, const char* example) {
  throw Error(ErrorCode::invalid_option,
              "--augment does not accept \"" + std::string(word) + "\": " + must_be,
              std::string("for example --augment flip,") + example);
}

void set_shift(Augment& augment, std::string_view word, std::string_view value) {
  augment.shift = kEighthOfShorterSide;
  if (value.empty()) return;
  const auto pixels = parse_number<int64_t>(value);
  if (!pixels || *pixels < 1 || *pixels > 65535)
    refuse(word, "its value must be a number of pixels from 1 to 65,535", "shift=4");
  augment.shift = *pixels;
}

void set_crop(Augment& augment, std::string_view word, std::string_view value) {
  const auto least = value.empty() ? std::optional(0.08) : parse_number<double>(value);
  if (!least || !(*least > 0 && *least <= 1))
    refuse(word, "its value must be a share of the area, above 0 and at most 1", "random-resized-crop=0.25");
  augment.least_crop = *least;
}

void set_jitter(Augment& augment, std::string_view word, std::string_view value) {
  augment.jitter = {0.4, 0.4, 0.4, 0.1};
  if (value.empty()) return;
  const std::vector<std::string> parts = split(std::string(value), '/');
  std::array<double, 4> numbers{};
  bool good = parts.size() == numbers.size();
  for (size_t i = 0; good && i < numbers.size(); ++i) {
    const auto number = parse_number<double>(parts[i]);
    good = number && *number >= 0 && *number <= (i == 3 ? 0.5 : 10);
    if (good) numbers[i] = *number;
  }
  if (!good)
    refuse(word, "its value must be brightness/contrast/saturation/hue, each 0 or more, hue at most 0.5",
           "color-jitter=0.4/0.4/0.4/0.1");
  augment.jitter = {numbers[0], numbers[1], numbers[2], numbers[3]};
}

double degrees_in(std::string_view word, std::string_view value, double usual, const char* example) {
  const auto degrees = value.empty() ? std::optional(usual) : parse_number<double>(value);
  if (!degrees || !(*degrees > 0 && *degrees < 90 + 90 * word.starts_with("rotation")))
    refuse(word,
           "its value must be an angle in degrees, above 0 and below " +
               std::string(word.starts_with("rotation") ? "180" : "90"),
           example);
  return *degrees;
}

void set_rotation(Augment& augment, std::string_view word, std::string_view value) {
  augment.shape.rotation = degrees_in(word, value, 15, "rotation=20");
}

void set_shear(Augment& augment, std::string_view word, std::string_view value) {
  augment.shape.shear = degrees_in(word, value, 10, "shear=5");
}

void set_scale(Augment& augment, std::string_view word, std::string_view value) {
  augment.shape.least_scale = 0.8;
  augment.shape.most_scale = 1.2;
  if (value.empty()) return;
  const std::vector<std::string> parts = split(std::string(value), '/');
  const auto least = parse_number<double>(parts.front()), most = parse_number<double>(parts.back());
  if (parts.size() != 2 || !least || !most || !(*least >= 0.01 && *most >= *least && *most <= 100))
    refuse(word, "its value must be the least and the largest factor, from 0.01 to 100", "scale=0.9/1.1");
  augment.shape.least_scale = *least;
  augment.shape.most_scale = *most;
}

void set_erase(Augment& augment, std::string_view word, std::string_view value) {
  const auto share = value.empty() ? std::optional(0.5) : parse_number<double>(value);
  if (!share || !(*share > 0 && *share <= 1))
    refuse(word, "its value must be the share of images, above 0 and at most 1", "random-erasing=0.25");
  augment.erase = *share;
}

void set_mixup(Augment& augment, std::string_view word, std::string_view value) {
  const auto alpha = value.empty() ? std::optional(1.0) : parse_number<double>(value);
  if (!alpha || !(*alpha > 0 && *alpha <= 100))
    refuse(word, "its value must be the parameter of the Beta distribution, above 0 and at most 100",
           "mixup=0.2");
  augment.mixup = *alpha;
}

struct Word {
  const char* name;
  void (*set)(Augment& augment, std::string_view word, std::string_view value);
  bool takes_value = true;
};

constexpr std::array<Word, 12> kWords{{
    {"random-resized-crop", set_crop},
    {"random-crop", [](Augment& augment, std::string_view, std::string_view) { augment.random_crop = true; },
     false},
    {"flip", [](Augment& augment, std::string_view, std::string_view) { augment.flip = true; }, false},
    {"flip-vertical",
     [](Augment& augment, std::string_view, std::string_view) { augment.flip_vertical = true; }, false},
    {"shift", set_shift},
    {"rotation", set_rotation},
    {"shear", set_shear},
    {"scale", set_scale},
    {"trivial-augment-wide",
     [](Augment& augment, std::string_view, std::string_view) { augment.trivial = true; }, false},
    {"color-jitter", set_jitter},
    {"random-erasing", set_erase},
    {"mixup", set_mixup},
}};

void set_word(Augment& augment, const std::string& word) {
  const size_t equals = word.find('=');
  const std::string name = word.substr(0, equals);
  std::vector<std::string> names{"none"};
  for (const Word& known : kWords) {
    names.emplace_back(known.name);
    if (name != known.name) continue;
    if (equals == std::string::npos) return known.set(augment, word, "");
    if (!known.takes_value || equals + 1 == word.size())
      refuse(word, known.takes_value ? "its value is missing" : "it does not take a value", "shift=4");
    return known.set(augment, word, std::string_view(word).substr(equals + 1));
  }
  const std::string near = nearest(name, names);
  names.erase(names.begin());
  throw Error(ErrorCode::invalid_option, "--augment does not know \"" + word + "\"",
              (near.empty() ? "" : "did you mean " + near + "? ") +
                  "it must be none, or a comma-separated list of " + join(names, ", "));
}

// Each kind of change has its own generator, so one option does not change the random numbers of another.
enum class Draw : uint64_t { crop = 1, jitter, erase, mix, place, shape, trivial };
Random random_for(uint64_t seed, Draw draw) { return Random(seed_of({seed, static_cast<uint64_t>(draw)})); }

double between(Random& random, double low, double high) { return low + (high - low) * random.uniform(); }

struct Rectangle {
  int64_t top = 0;
  int64_t left = 0;
  int64_t height = 0;
  int64_t width = 0;
};

// A rectangle with this share of the area. The ratio of width to height is drawn between 1 / `ratio` and
// `ratio`, uniformly in its logarithm. As in torchvision, up to ten are drawn, and the first that fits is
// taken.
std::optional<Rectangle> draw_rectangle(Random& random, const ImageFormat& format,
                                        std::array<double, 2> share, double ratio) {
  std::optional<Rectangle> chosen;
  const auto area = static_cast<double>(format.height * format.width);
  for (int i = 0; i < 10; ++i) {
    const double own = area * between(random, share[0], share[1]);
    const double shape = std::exp(between(random, -std::log(ratio), std::log(ratio)));
    const Rectangle drawn{0, 0, std::lrint(std::sqrt(own / shape)), std::lrint(std::sqrt(own * shape))};
    if (drawn.height < 1 || drawn.width < 1 || drawn.height > format.height || drawn.width > format.width)
      continue;
    chosen = drawn;
    break;
  }
  if (!chosen) return std::nullopt;
  chosen->top = static_cast<int64_t>(random.below(static_cast<uint64_t>(format.height - chosen->height + 1)));
  chosen->left = static_cast<int64_t>(random.below(static_cast<uint64_t>(format.width - chosen->width + 1)));
  return chosen;
}

constexpr double kMostCropRatio = 4.0 / 3;

// The rectangle `part` of a whole image, resized.
void resize_part(std::span<const uint8_t> whole, const ImageFormat& from, const Rectangle& part,
                 std::span<uint8_t> image, const ImageFormat& to) {
  std::array<PixelPlane, 3> planes;
  for (int64_t c = 0; c < from.channels; ++c) {
    planes[static_cast<size_t>(c)] = {whole.data() + (c * from.height + part.top) * from.width + part.left,
                                      from.width, 1, part.height, part.width};
  }
  const Box box{0, 0, static_cast<double>(part.width), static_cast<double>(part.height)};
  resample(std::span(planes).first(static_cast<size_t>(from.channels)), box, {to.height, to.width}, image);
}

void crop(std::span<uint8_t> image, const ImageFormat& format, double least, Random random) {
  const auto part = draw_rectangle(random, format, {least, 1}, kMostCropRatio);
  if (!part) return;
  thread_local ThreadBuffer memory;
  const std::span<uint8_t> whole = memory.of(image.size());
  std::copy(image.begin(), image.end(), whole.begin());
  resize_part(whole, format, *part, image, format);
}

// The largest centred part within the ratio limits, which torchvision takes if none of the drawn parts fits.
Rectangle middle_of(const ImageFormat& format) {
  const int64_t height =
      std::min<int64_t>(format.height, std::lrint(static_cast<double>(format.width) * kMostCropRatio));
  const int64_t width =
      std::min<int64_t>(format.width, std::lrint(static_cast<double>(format.height) * kMostCropRatio));
  return {(format.height - height) / 2, (format.width - width) / 2, height, width};
}

void cut(const Augment& augment, std::span<const uint8_t> larger, const ImageFormat& from,
         std::span<uint8_t> image, const ImageFormat& to, uint64_t seed) {
  if (augment.least_crop > 0) {
    Random random = random_for(seed, Draw::crop);
    const auto part = draw_rectangle(random, from, {augment.least_crop, 1}, kMostCropRatio);
    return resize_part(larger, from, part.value_or(middle_of(from)), image, to);
  }
  if (!augment.random_crop) return cut_centre(larger, from, image, to);
  Random random = random_for(seed, Draw::place);
  const auto top = static_cast<int64_t>(random.below(static_cast<uint64_t>(from.height - to.height + 1)));
  const auto left = static_cast<int64_t>(random.below(static_cast<uint64_t>(from.width - to.width + 1)));
  cut_part(larger, from, top, left, image, to);
}

void erase_part(std::span<uint8_t> image, const ImageFormat& format, double share, Random random) {
  const bool chosen = random.uniform() < share;
  const auto part = draw_rectangle(random, format, {0.02, 0.33}, 3.3);
  if (!chosen || !part) return;
  for (int64_t c = 0; c < format.channels; ++c) {
    for (int64_t y = 0; y < part->height; ++y)
      std::memset(image.data() + (c * format.height + part->top + y) * format.width + part->left, 0,
                  static_cast<size_t>(part->width));
  }
}

// Two gamma variates give a beta variate; for a shape below 1, a power of a uniform number is used (the loop
// is the method of Marsaglia and Tsang 2000).
double draw_gamma(Random& random, double shape) {
  if (shape < 1) {
    const double power = std::pow(1 - random.uniform(), 1 / shape);
    return draw_gamma(random, shape + 1) * power;
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double normal =
        std::sqrt(-2 * std::log(1 - random.uniform())) * std::cos(6.283185307179586 * random.uniform());
    const double v = (1 + c * normal) * (1 + c * normal) * (1 + c * normal);
    if (v > 0 && std::log(1 - random.uniform()) < 0.5 * normal * normal + d - d * v + d * std::log(v))
      return d * v;
  }
}

void mirror_rows(uint8_t* plane, int64_t height, int64_t width) {
  for (int64_t y = 0; y < height; ++y) std::reverse(plane + y * width, plane + (y + 1) * width);
}

void mirror_columns(uint8_t* plane, int64_t height, int64_t width) {
  for (int64_t y = 0; y < height / 2; ++y)
    std::swap_ranges(plane + y * width, plane + (y + 1) * width, plane + (height - 1 - y) * width);
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
  std::memmove(plane + std::max<int64_t>(down, 0) * width, plane + std::max<int64_t>(-down, 0) * width,
               moved);
  std::memset(down > 0 ? plane : plane + moved, 0, empty);
  for (int64_t y = 0; y < height && right != 0; ++y) shift_row(plane + y * width, width, right);
}

int64_t draw_shift(Random& random, int64_t most, int64_t length) {
  const int64_t drawn = static_cast<int64_t>(random.below(static_cast<uint64_t>(2 * most + 1))) - most;
  return std::clamp(drawn, -length, length);
}

// All changes except the part and mixup.
void change(const Augment& augment, std::span<uint8_t> image, const ImageFormat& format, uint64_t seed) {
  // Every number is drawn even if it is not used, so one option does not change the random numbers of
  // another.
  Random random(seed);
  const bool mirror = (random.next() >> 63) != 0;
  const bool mirror_vertically = (random.next() >> 63) != 0;
  const int64_t most =
      augment.shift == kEighthOfShorterSide ? std::min(format.height, format.width) / 8 : augment.shift;
  const int64_t down = draw_shift(random, most, format.height);
  const int64_t right = draw_shift(random, most, format.width);
  for (int64_t c = 0; c < format.channels; ++c) {
    uint8_t* plane = image.data() + c * format.height * format.width;
    if (augment.flip && mirror) mirror_rows(plane, format.height, format.width);
    if (augment.flip_vertical && mirror_vertically) mirror_columns(plane, format.height, format.width);
    if (most != 0) shift_plane(plane, format.height, format.width, down, right);
  }
  if (augment.shape.any()) change_shape(image, format, augment.shape, random_for(seed, Draw::shape));
  if (augment.trivial) augment_trivially(image, format, random_for(seed, Draw::trivial));
  if (augment.jitter.any()) jitter_colors(image, format, augment.jitter, random_for(seed, Draw::jitter));
  if (augment.erase > 0) erase_part(image, format, augment.erase, random_for(seed, Draw::erase));
}

}  // namespace

Augment Augment::parse(std::string_view text) {
  Augment augment;
  if (text.empty() || text == "none") return augment;
  for (const std::string& word : split(text, ',')) set_word(augment, word);
  if (augment.least_crop > 0 && augment.random_crop) {
    throw Error(ErrorCode::invalid_option,
                "--augment cannot combine random-resized-crop and random-crop, because both choose the part "
                "of the image",
                "remove one of them");
  }
  return augment;
}

void Augment::apply(std::span<uint8_t> image, const ImageFormat& format, uint64_t seed) const {
  if (least_crop > 0) crop(image, format, least_crop, random_for(seed, Draw::crop));
  change(*this, image, format, seed);
}

void Augment::apply(std::span<const uint8_t> larger, const ImageFormat& larger_format,
                    std::span<uint8_t> image, const ImageFormat& format, uint64_t seed) const {
  cut(*this, larger, larger_format, image, format, seed);
  change(*this, image, format, seed);
}

Mix Augment::draw_mix(int64_t count, uint64_t seed) const {
  Random random = random_for(seed, Draw::mix);
  Mix mix;
  mix.other = static_cast<int64_t>(random.below(static_cast<uint64_t>(count)));
  const double one = draw_gamma(random, mixup), two = draw_gamma(random, mixup);
  if (one + two > 0) mix.share = std::lrint(256 * one / (one + two));
  return mix;
}

void mix_in(std::span<uint8_t> image, std::span<const uint8_t> other, int64_t share) {
  const auto own = static_cast<uint32_t>(share);
  for (size_t i = 0; i < image.size(); ++i)
    image[i] = static_cast<uint8_t>((image[i] * own + other[i] * (256 - own) + 128) >> 8);
}

}  // namespace lockstep::data
