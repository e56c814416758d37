// Converts a stored image to the shape that the network needs, and applies random augmentation.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/data/datastore.h"
#include "lockstep/data/pixels.h"

namespace lockstep::data {

enum class Resize { stretch, crop, pad };
constexpr std::array<const char*, 3> enum_names(Resize) { return {"stretch", "crop", "pad"}; }

/// On which side a sequence is padded with zeros to the length of its mini-batch.
enum class PaddingSide { right, left };
constexpr std::array<const char*, 2> enum_names(PaddingSide) { return {"right", "left"}; }

/// The shape of every image in a run: C is 1 or 3. For sequences {C,1,T} with the longest T; each sequence
/// keeps its own length.
struct ImageFormat {
  int64_t channels = 1;
  int64_t height = 28;
  int64_t width = 28;
  Resize resize = Resize::stretch;
  SampleKind kind = SampleKind::image;
  PaddingSide padding = PaddingSide::right;
  Decode decode = Decode::exact;
  const device::JpegDecoder* jpeg_decoder =
      nullptr;  ///< for Decode::gpu; must exist as long as images are read
  ImageSize size() const { return {channels, height, width}; }
  /// The same format with another size.
  ImageFormat sized(int64_t other_height, int64_t other_width) const {
    ImageFormat other = *this;
    other.height = other_height;
    other.width = other_width;
    return other;
  }
  friend bool operator==(const ImageFormat&, const ImageFormat&) = default;
};

/// Converts between grey and colour (ITU-R 601 luma like Pillow's convert("L"): (19595 R + 38470 G + 7471 B +
/// 32768) >> 16), then resizes: bilinear with antialiasing, with the levels of Pillow 13's BILINEAR (within 1
/// of older versions). stretch: to the size; crop: fits the shorter side and keeps the centre; pad: fits the
/// longer side and adds zeros. An image that already fits is returned unchanged, bit for bit.
Image to_format(const Image& image, const ImageFormat& format);

/// The same with the caller's memory; `destination` has format.size().bytes() bytes.
void to_format(const ImageSize& size, std::span<const uint8_t> pixels, const ImageFormat& format,
               std::span<uint8_t> destination);

/// The same for pixels as a decoder stores them. Results for luma and chroma (Decode::fast) are close to the
/// others, but not within 1 level.
void to_format(const Pixels& pixels, const ImageFormat& format, std::span<uint8_t> destination);

/// The factor by which an image of this size may be decoded smaller without becoming smaller than the result
/// of to_format; 1 or more: not at all.
double least_scale(const ImageSize& size, const ImageFormat& format);

/// How far colours may change, as in torchvision's ColorJitter: brightness, contrast and saturation are
/// multiplied by a number from 1 - x (at least 0) to 1 + x; the hue is rotated by up to x of a circle (at
/// most 0.5). The order is random.
struct ColorJitter {
  double brightness = 0;
  double contrast = 0;
  double saturation = 0;
  double hue = 0;
  bool any() const { return brightness > 0 || contrast > 0 || saturation > 0 || hue > 0; }

  static constexpr auto describe = [](auto& self, auto&& field) {
    field("brightness", self.brightness);
    field("contrast", self.contrast);
    field("saturation", self.saturation);
    field("hue", self.hue);
  };
};

/// How far images may be turned, sheared and scaled, as in torchvision's RandomAffine: angles from -x to x
/// degrees, and a factor.
struct ShapeChange {
  double rotation = 0;
  double shear = 0;
  double least_scale = 1;
  double most_scale = 1;
  bool any() const { return rotation > 0 || shear > 0 || least_scale != 1 || most_scale != 1; }

  static constexpr auto describe = [](auto& self, auto&& field) {
    field("rotation", self.rotation);
    field("shear", self.shear);
    field("least_scale", self.least_scale);
    field("most_scale", self.most_scale);
  };
};

/// A pair of mixup (arXiv:1710.09412): the other sample, and the first sample's share of pixels and loss.
struct Mix {
  int64_t other = 0;
  int64_t share = 256;  ///< in 1/256
};

// clang-format off
/// Random changes of u8 images, drawn with a seed and applied in the order of the members. The text form is a
/// comma-separated list (in brackets: defaults, and torchvision's name):
///   random-resized-crop[=LEAST]  cuts out LEAST (0.08) to all of the area, with a ratio of 3:4 to 4:3, and
///                                resizes it to the format's size (RandomResizedCrop)
///   random-crop                  cuts a part of the format's size out of a larger image (RandomCrop); not
///                                together with random-resized-crop
///   flip, flip-vertical          each with probability 1/2 (RandomHorizontalFlip, RandomVerticalFlip)
///   shift[=PIXELS]               up to PIXELS (an eighth of the shorter side) in each direction; edges are
///                                filled with zeros (RandomCrop with that padding)
///   rotation[=DEGREES], shear[=DEGREES], scale[=LEAST/MOST]
///                                turned and sheared by up to 15 and 10 degrees, scaled by 0.8 to 1.2, around
///                                the centre and in one step; nearest pixels, zeros outside (RandomAffine)
///   trivial-augment-wide         one of 14 changes with one of 31 magnitudes (TrivialAugmentWide)
///   color-jitter[=B/C/S/H]       see ColorJitter (0.4/0.4/0.4/0.1); for grey images only the
///                                first two
///   random-erasing[=SHARE]       in this share of the images (0.5), sets a rectangle of 0.02 to 0.33 of the
///                                area to zero (RandomErasing)
///   mixup[=ALPHA]                mixes each sample with another one, by a share from Beta(ALPHA, ALPHA)
///                                (1; MixUp)
/// All except the first two need images of the format's size; without a larger image, so does the first one.
// clang-format on
struct Augment {
  double least_crop = 0;  ///< smallest share of the area; 0: no crop
  bool random_crop = false;
  bool flip = false;
  bool flip_vertical = false;
  int64_t shift = 0;  ///< maximum pixels in each direction; -1: an eighth of the shorter side
  ShapeChange shape = {};
  bool trivial = false;
  ColorJitter jitter = {};
  double erase = 0;  ///< share of the images
  double mixup = 0;  ///< alpha; 0: none

  static constexpr auto describe = [](auto& self, auto&& field) {
    field("least_crop", self.least_crop);
    field("random_crop", self.random_crop);
    field("flip", self.flip);
    field("flip_vertical", self.flip_vertical);
    field("shift", self.shift);
    field("shape", self.shape);
    field("trivial", self.trivial);
    field("jitter", self.jitter);
    field("erase", self.erase);
    field("mixup", self.mixup);
  };

  /// Throws invalid_option for an unknown word (with the nearest), a bad number, and two words that choose
  /// the part.
  static Augment parse(std::string_view text);
  /// Whether it chooses a part of the image.
  bool crops() const { return least_crop > 0 || random_crop; }
  bool any() const {
    return crops() || flip || flip_vertical || shift != 0 || shape.any() || trivial || jitter.any() ||
           erase > 0 || mixup > 0;
  }
  /// In place on one image [C,H,W]; a pure function of (pixels, seed). Applies all changes except mixup and
  /// random-crop.
  void apply(std::span<uint8_t> image, const ImageFormat& format, uint64_t seed) const;
  /// The same on a part of `larger`, whose format `larger_format` has equally many channels. The part is that
  /// of random-resized-crop (resized) or random-crop, or else the centre (cut_centre). `image` has
  /// format.size().bytes() bytes.
  void apply(std::span<const uint8_t> larger, const ImageFormat& larger_format, std::span<uint8_t> image,
             const ImageFormat& format, uint64_t seed) const;
  /// What a sample of a dataset of `count` is mixed with.
  Mix draw_mix(int64_t count, uint64_t seed) const;
};

/// Replaces `image` with the mixture, each pixel rounded.
void mix_in(std::span<uint8_t> image, std::span<const uint8_t> other, int64_t share);

}  // namespace lockstep::data
