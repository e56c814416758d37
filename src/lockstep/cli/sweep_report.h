// The HTML report of a sweep.
#pragma once

#include <filesystem>

#include "lockstep/cli/console.h"
#include "lockstep/cli/verb.h"
#include "lockstep/train/options/options.h"

namespace lockstep::cli {

/// Whether the folder is that of a sweep.
bool is_sweep(const std::filesystem::path& folder);

/// Writes the page of the sweep that `lockstep report` names. The chosen trials are judged as it judges a
/// run, where they kept their weights; unless --weights names others, with those that their results are of. A
/// trial whose events cannot be read has no curves; a note says so. Returns the file.
std::filesystem::path write_sweep_report(const Call& call, const train::Options& options, Console& console);

}  // namespace lockstep::cli
