// The HTML report of a run.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/cli/command_options.h"
#include "lockstep/cli/console.h"
#include "lockstep/cli/verb.h"
#include "lockstep/train/options/options.h"
#include "lockstep/view/report.h"

namespace lockstep::cli {

/// What a report judges: the weights of a run, by the samples of `judged_by` or by what the run held out.
struct Judging {
  std::filesystem::path run_folder{};
  std::string judged_by{};
  ReportOptions asked{};
  train::Options options{};
  Call call{};  ///< of the command; its --labels are for `judged_by`
};

/// Adds the weights and what they answer to a report that has its events. Where that cannot be done the
/// report says why, and gets what the run kept of its best validation; with `judged_by` it is an error.
void add_judgement(view::Report& report, const Judging& judging, Console& console);

/// What the run kept of its best validation. Nothing if it has kept nothing; also if that cannot be read,
/// which a note says.
std::optional<record::KeptConfusion> kept_confusion(const std::filesystem::path& run_folder,
                                                    Console& console);

/// Judges the run by `judged_by`, or where that is empty by what it held out, and writes the page. Where that
/// cannot be done the page says why, and shows the rest and what the run kept. Returns the file.
std::filesystem::path write_report(const Judging& judging, Console& console);

}  // namespace lockstep::cli
