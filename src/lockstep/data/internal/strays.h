// Files in an image folder that are not images of a class.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/data/image_set.h"

namespace lockstep::data {

/// The images of classes in a folder: their number, and the first one's path for messages.
struct ImagesOfClasses {
  int64_t count = 0;
  std::string first = {};
};

/// Throws corrupt_data with their number and the first ones. Few images among more CSV files are the strays:
/// the hint says so.
[[noreturn]] void refuse_strays(const std::string& root, const std::vector<BadSample>& strays,
                                const ImagesOfClasses& images);

}  // namespace lockstep::data
