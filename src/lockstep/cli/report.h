// The HTML report of a run.
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/cli/command_options.h"
#include "lockstep/cli/console.h"
#include "lockstep/train/options/options.h"

namespace lockstep::cli {

/// Judges the run by `judged_by`, or where that is empty by what it held out, and writes the page. Where that
/// cannot be done the page says why, and shows the rest. Returns the file.
std::filesystem::path write_report(const std::filesystem::path& run_folder, const std::string& judged_by,
                                   const ReportOptions& report, const train::Options& options,
                                   Console& console);

}  // namespace lockstep::cli
