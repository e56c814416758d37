// From a stored image to the shape the network takes, and the random changes of augmentation.
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

/// On which side of a sequence the zeros stand that make it as long as the others of its mini-batch.
enum class PaddingSide { right, left };
constexpr std::array<const char*, 2> enum_names(PaddingSide) { return {"right", "left"}; }

/// The one shape every image of a run has: C is 1 or 3. For sequences {C,1,T} with the longest T; each
/// keeps its own length.
struct ImageFormat {
  int64_t channels = 1;
  int64_t height = 28;
  int64_t width = 28;
  Resize resize = Resize::stretch;
  SampleKind kind = SampleKind::image;
  PaddingSide padding = PaddingSide::right;
  Decode decode = Decode::exact;
  const device::JpegDecoder* jpeg_decoder = nullptr;  ///< of Decode::gpu; lives as long as images are read
  ImageSize size() const { return {channels, height, width}; }
  /// The same for images of another size.
  ImageFormat sized(int64_t other_height, int64_t other_width) const {
    ImageFormat other = *this;
    other.height = other_height;
    other.width = other_width;
    return other;
  }
  friend bool operator==(const ImageFormat&, const ImageFormat&) = default;
};

/// Grey <-> colour (ITU-R 601 luma as Pillow's convert("L"): (19595 R + 38470 G + 7471 B + 32768) >> 16),
/// then resize: bilinear with antialias, the levels of Pillow 13's BILINEAR (within 1 of older ones).
/// stretch: to the size; crop: the shorter side to fit, the centre kept; pad: the longer side to fit, zeros
/// around. An image that already fits is returned unchanged, bit for bit.
Image to_format(const Image& image, const ImageFormat& format);

/// The same from and to memory of the caller's; `destination` is format.size().bytes() long.
void to_format(const ImageSize& size, std::span<const uint8_t> pixels, const ImageFormat& format,
               std::span<uint8_t> destination);

/// The same from pixels as a decoder has them. Luma and chroma (Decode::fast) come near the other's levels,
/// not within 1.
void to_format(const Pixels& pixels, const ImageFormat& format, std::span<uint8_t> destination);

/// How much smaller an image of this size may be decoded, and still be no smaller than what to_format makes
/// of it: 1 or more for not at all.
double least_scale(const ImageSize& size, const ImageFormat& format);

/// How far colours may go, as torchvision's ColorJitter: brightness, contrast and saturation are multiplied
/// by a number from 1 - x (at least 0) to 1 + x, the hue is turned by up to x of a circle (at most 0.5), in
/// an order drawn anew each time.
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

/// A sample of mixup (arXiv:1710.09412): another one to mix in, and the first one's share of pixels and loss.
struct Mix {
  int64_t other = 0;
  int64_t share = 256;  ///< of 256
};

/// Random changes of u8 images, drawn by a seed, in the order of the members. The text form is a comma
/// list:
///   random-resized-crop[=LEAST]  a part of LEAST (0.08) to all of the area, 3:4 to 4:3, resized to the whole
///   (torchvision's RandomResizedCrop) random-crop                  of a larger image a part of the
///   format's size at a random place (RandomCrop); not with the one above flip, flip-vertical          each
///   one time in two (RandomHorizontalFlip, RandomVerticalFlip) shift[=PIXELS]               up to so many in
///   each direction, an eighth of the shorter side by default, edges filled with zeros (RandomCrop with
///                                that padding)
///   color-jitter[=B/C/S/H]       see ColorJitter; 0.4/0.4/0.4/0.1 by default; of grey images brightness
///   and contrast only random-erasing[=SHARE]       in that share of the images (0.5) a rectangle of 0.02
///   to 0.33 of the area becomes zero (RandomErasing) mixup[=ALPHA]                each sample is mixed with
///   another by a share drawn from Beta(ALPHA, ALPHA), 1 by default (MixUp)
/// All but the first two work on images that have the format's size already; so does the first where there
/// is no larger image.
struct Augment {
  double least_crop = 0;  ///< share of the area; 0: no crop
  bool random_crop = false;
  bool flip = false;
  bool flip_vertical = false;
  int64_t shift = 0;  ///< most pixels in each direction; -1: an eighth of the shorter side
  ColorJitter jitter = {};
  double erase = 0;  ///< share of the images
  double mixup = 0;  ///< alpha; 0: none

  static constexpr auto describe = [](auto& self, auto&& field) {
    field("least_crop", self.least_crop);
    field("random_crop", self.random_crop);
    field("flip", self.flip);
    field("flip_vertical", self.flip_vertical);
    field("shift", self.shift);
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
    return crops() || flip || flip_vertical || shift != 0 || jitter.any() || erase > 0 || mixup > 0;
  }
  /// In place on one image [C,H,W]; a pure function of (pixels, seed). All but mixup and random-crop.
  void apply(std::span<uint8_t> image, const ImageFormat& format, uint64_t seed) const;
  /// The same on a part of `larger`, which has the format `larger_format` of as many channels: the part that
  /// random-resized-crop draws, resized, or random-crop, else the centre (cut_centre). `image` is
  /// format.size().bytes() long.
  void apply(std::span<const uint8_t> larger, const ImageFormat& larger_format, std::span<uint8_t> image,
             const ImageFormat& format, uint64_t seed) const;
  /// What a sample of a dataset of `count` is mixed with.
  Mix draw_mix(int64_t count, uint64_t seed) const;
};

/// `image` becomes the mixture, each pixel rounded.
void mix_in(std::span<uint8_t> image, std::span<const uint8_t> other, int64_t share);

}  // namespace lockstep::data
