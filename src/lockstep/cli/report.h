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
    field("weights", self.weights, "weights to use: last (after the last step) or best (of all validations)");
    field("output", self.output, "file to write (default: report.html in the run folder)");
    field("images", self.images, "maximum number of mistakes to show, worst first", between(0, 1000));
  };
};

/// The report at the end of training.
struct ReportSwitch {
  bool report = false;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Report");
    field("report", self.report, "write report.html into the run folder at the end, like lockstep report");
  };
};

/// Evaluates the run on `judged_by`, or on its held-out data if that is empty, and writes the page. If the
/// evaluation fails, the page says why and shows the rest. Returns the path of the file.
std::filesystem::path write_report(const std::filesystem::path& run_folder, const std::string& judged_by,
                                   const ReportOptions& report, const train::Options& options,
                                   Console& console);

}  // namespace lockstep::cli
