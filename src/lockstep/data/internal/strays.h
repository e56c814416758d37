// Files in a folder of class folders that are not samples of a class.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/image_set.h"

namespace lockstep::data {

/// The images of classes in a folder: their number, and the first one's path for messages.
struct ImagesOfClasses {
  int64_t count = 0;
  std::string first = {};
};

/// Which names images have, and what to do with other images.
std::string hint_for_names();

/// Throws corrupt_data with their number and the first ones. Few images among more CSV files are the strays:
/// the hint says so. If no file has the name of an image, it says which names images have.
[[noreturn]] void refuse_strays(const std::string& root, const std::vector<BadSample>& strays,
                                const ImagesOfClasses& images);

/// The same for a folder of sequences, of which only what cannot be read is a stray.
[[noreturn]] void refuse_strays(const std::string& root, const std::vector<BadSample>& strays);

/// Throws corrupt_data: `"root" contains what: "first": why`, with more of them as its context.
[[noreturn]] void refuse_files(const std::string& root, const std::vector<BadSample>& files,
                               const std::string& what, const std::string& hint);

/// Why an entry of kind io::Listed::Kind::other is a stray.
inline constexpr const char* kNoFile = "it is a broken link, a link in an archive, a pipe or a device";

/// Whether a file beside the class folders is about the data: README, LICENSE, labels.csv, notes.txt.
bool is_note(std::string_view name);

}  // namespace lockstep::data
