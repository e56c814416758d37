// The HTML report of a run.
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/base/describe.h"
#include "lockstep/cli/console.h"
#include "lockstep/train/options/options.h"

namespace lockstep::cli {

struct ReportOptions {
  std::string weights = "last";
  std::string output;
  int64_t images = 24;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Report");
    field("weights", self.weights, "last (after the last step) or best (of the validations)");
    field("output", self.output, "write to this file; empty: report.html in the run folder");
    field("images", self.images, "so many of the worst mistakes are shown", between(0, 1000));
  };
};

/// At the end of training.
struct ReportSwitch {
  bool report = false;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Report");
    field("report", self.report, "write report.html into the run folder at the end, as lockstep report does");
  };
};

/// Judges the run by `judged_by`, or where that is empty by what it held out, and writes the page. Where that
/// cannot be done the page says why, and shows the rest. Returns the file.
std::filesystem::path write_report(const std::filesystem::path& run_folder, const std::string& judged_by,
                                   const ReportOptions& report, const train::Options& options,
                                   Console& console);

}  // namespace lockstep::cli
