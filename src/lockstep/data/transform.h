// From a stored picture to the shape the network takes, and the random changes of augmentation.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/data/datastore.h"

namespace lockstep::data {

enum class Resize { stretch, crop, pad };
constexpr std::array<const char*, 3> enum_names(Resize) { return {"stretch", "crop", "pad"}; }

/// On which side of a sequence the zeros stand that make it as long as the others of its mini-batch.
enum class PaddingSide { right, left };
constexpr std::array<const char*, 2> enum_names(PaddingSide) { return {"right", "left"}; }

/// The one shape every picture of a run has: C is 1 or 3. For sequences {C,1,T} with the longest T; each keeps its own length.
struct PictureFormat {
  int64_t channels = 1;
  int64_t height = 28;
  int64_t width = 28;
  Resize resize = Resize::stretch;
  SampleKind kind = SampleKind::picture;
  PaddingSide padding = PaddingSide::right;
  ImageSize size() const { return {channels, height, width}; }
  friend bool operator==(const PictureFormat&, const PictureFormat&) = default;
};

/// Grey <-> colour (ITU-R 601 luma as Pillow's convert("L"): (19595 R + 38470 G + 7471 B + 32768) >> 16), then resize: bilinear with
/// antialias, equal to Pillow's BILINEAR within 1 level. stretch: to the size; crop: the shorter side to fit, the centre kept;
/// pad: the longer side to fit, zeros around. A picture that already fits is returned unchanged, bit for bit.
Image to_format(const Image& image, const PictureFormat& format);

/// The same from and to memory of the caller's; `destination` is format.size().bytes() long.
void to_format(const ImageSize& size, std::span<const uint8_t> pixels, const PictureFormat& format, std::span<uint8_t> destination);

/// Random changes of u8 pictures, drawn by a seed. The text form is a comma list: "flip", "flip-vertical", "shift" or "shift=4" (pixels,
/// default an eighth of the shorter side, edges filled with zeros).
struct Augment {
  bool flip = false;
  bool flip_vertical = false;
  int64_t shift = 0;  ///< most pixels in each direction; -1: an eighth of the shorter side

  /// Throws invalid_option for an unknown word (with the nearest) or a bad number.
  static Augment parse(std::string_view text);
  bool any() const { return flip || flip_vertical || shift != 0; }
  /// In place on one picture [C,H,W]; a pure function of (pixels, seed).
  void apply(std::span<uint8_t> picture, const PictureFormat& format, uint64_t seed) const;
};

}  // namespace lockstep::data
