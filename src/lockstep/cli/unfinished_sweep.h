// A sweep without --output gets a folder of its own each time, also where its command is repeated.
#pragma once

#include <filesystem>
#include <optional>

#include "lockstep/sweep/sweep_folder.h"

namespace lockstep::cli {

/// The newest sweep in the folder `parent` that searches what `asked` does, is not complete, and on which no
/// program works. What cannot be read is none.
std::optional<sweep::SweepPaths> unfinished_sweep(const std::filesystem::path& parent,
                                                  const sweep::SweepSpec& asked);

}  // namespace lockstep::cli
