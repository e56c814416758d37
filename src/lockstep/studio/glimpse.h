// A coarse picture of a log that takes long to read.
#pragma once

#include <filesystem>
#include <optional>

#include "lockstep/studio/log_contents.h"

namespace lockstep::studio {

/// What the beginning, the end and some hundred places between them have of each log, for as long as the logs
/// are being read. Takes about 20 ms. Nothing for logs that are read as soon.
std::optional<LogContents> glimpse_of(const std::filesystem::path& run_folder);

}  // namespace lockstep::studio
