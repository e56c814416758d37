// A run folder that somebody removes while its run goes on.
#pragma once

#include <filesystem>

#include "lockstep/base/error.h"

namespace lockstep::record {

/// Whether there is no such folder. False if that is not known, as on a disk that does not answer.
bool is_gone(const std::filesystem::path& run_folder);

/// Waits a second at most until there is no such folder: who removes one begins with what is in it, so that a
/// file cannot be written for a moment before.
void wait_until_gone(const std::filesystem::path& run_folder);

/// What ends such a run.
Error gone_folder_error(const std::filesystem::path& run_folder);

}  // namespace lockstep::record
