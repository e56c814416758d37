// RUN/confusion.csv: what the network answered in a run's best validation.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/class_figures.h"

namespace lockstep::record {

struct KeptConfusion {
  std::vector<std::string> classes{};
  ConfusionMatrix counts{};  ///< as many rows and columns as there are classes
};

/// The content of the file.
std::string confusion_text(const KeptConfusion& confusion);

/// Nothing without such a file. Throws corrupt_data if it is damaged.
std::optional<KeptConfusion> read_confusion(const std::filesystem::path& run_folder);

}  // namespace lockstep::record
