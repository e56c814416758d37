// Data of other programs, which no kind of source reads: what they are, and what to do with them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/internal/files.h"

namespace lockstep::data {

struct OtherData {
  std::string what;  ///< after the file's name: `is in Weka's format`
  std::string hint;
};

/// Of a file of `files`, by its name and its beginning. Nothing if it is not known or cannot be read.
std::optional<OtherData> other_data(const Files& files, std::string_view path);

/// Whether other_data may know a file of this name, and one with data about images.
bool may_be_other_data(std::string_view name);
bool may_annotate_images(std::string_view name);

/// Throws invalid_option for the first of these paths of `files` that other_data knows. Looks into 20 at
/// most.
void refuse_other_data(const Files& files, const std::vector<std::string>& paths);

}  // namespace lockstep::data
