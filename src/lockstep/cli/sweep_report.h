// The HTML report of a sweep.
#pragma once

#include <filesystem>

#include "lockstep/cli/command_options.h"
#include "lockstep/cli/console.h"
#include "lockstep/train/options/options.h"

namespace lockstep::cli {

/// Whether the folder is that of a sweep.
bool is_sweep(const std::filesystem::path& folder);

/// Writes the page. The chosen trials are judged as `lockstep report` judges a run, where they kept their
/// weights. A trial whose events cannot be read has no curves; a note says so. Returns the file.
std::filesystem::path write_sweep_report(const std::filesystem::path& folder, const ReportOptions& asked,
                                         const train::Options& options, Console& console);

}  // namespace lockstep::cli
