// PNG and JPEG files to pixels. The files are not trusted: sizes are checked against stated bounds and against what so many bytes can hold
// before memory is taken.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "lockstep/data/datastore.h"

namespace lockstep::data {

constexpr int64_t kMostPixels = int64_t{1} << 27;
constexpr int64_t kMostFileBytes = int64_t{1} << 29;

/// Why a picture cannot be read, e.g. "JPEG ends at byte 20480". Whoever knows the file's name makes a BadPicture of it.
class DecodeError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Whether the name ends in .png, .jpg or .jpeg, in capitals or not.
bool is_picture_name(std::string_view name);

/// Decodes a whole file held in memory to [C,H,W]; `name` says by its ending what it should be. Any thread.
/// PNG: every depth and kind; 16 bits become the upper 8; alpha and transparency are dropped, as Pillow's convert("RGB") does; grey stays one
/// channel, a palette becomes three. JPEG: grey one channel; YCbCr, RGB and CMYK three; a turn noted in EXIF is not applied, as in
/// torchvision's ImageFolder.
/// Throws DecodeError.
void decode(std::string_view name, std::string_view file, const Placement& placement);

/// The same size that decode() would give, from the file's first few kilobytes. Throws DecodeError, not_found or io.
ImageSize stored_size(const std::string& path);

}  // namespace lockstep::data
