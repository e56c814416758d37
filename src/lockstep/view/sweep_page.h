// The report of a sweep: one self-contained HTML page.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/sweep/importance.h"
#include "lockstep/sweep/parallel_coordinates.h"
#include "lockstep/sweep/sweep_folder.h"
#include "lockstep/view/report.h"

namespace lockstep::view {

/// Results of one trial on held-out samples while it was trained.
struct TrialCurve {
  int64_t trial = 0;
  std::vector<std::pair<int64_t, double>> points{};  ///< step and value
};

/// A trial that is shown in full, beside the others that are.
struct ChosenTrial {
  int64_t trial = 0;
  std::string command{};  ///< that trains it again
  Report report{};        ///< of its run; without events for a program that leaves no run
};

/// What a trial answered in its best validation.
struct TrialConfusion {
  int64_t trial = 0;
  record::KeptConfusion kept{};
};

struct SweepPage {
  std::string sweep;  ///< its folder
  sweep::Table table{};
  std::vector<sweep::Importance> importances{};
  sweep::ParallelCoordinates parallel{};
  std::string curve_name{};                  ///< of the values in `curves`: "accuracy"
  std::vector<TrialCurve> curves{};          ///< of all trials that have one
  std::vector<ChosenTrial> chosen{};         ///< in the order of the page
  std::vector<TrialConfusion> confusions{};  ///< of other trials, in the order of the page
  int64_t confusions_left_out = 0;           ///< of further trials, which would make the page too large
};

/// Like report_page, it loads nothing, and escapes what was written by others.
std::string sweep_page(const SweepPage& page);

}  // namespace lockstep::view
