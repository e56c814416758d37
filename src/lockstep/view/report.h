// The report of a run: one self-contained HTML page.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/class_figures.h"
#include "lockstep/record/confusion_file.h"
#include "lockstep/record/event.h"

namespace lockstep::view {

/// A sample that was classified wrongly.
struct ReportMistake {
  std::string source;
  std::string truth;
  std::string answer;
  double score = 0;        ///< score of the answer
  double truth_score = 0;  ///< score of the true class
  std::string image_type;  ///< e.g. "image/png"
  std::string image;       ///< the file's bytes; empty: the page has a table row for the sample
  bool tiny = false;       ///< so few pixels that each one is shown as a square
};

/// The network's results on labelled samples.
struct Judgement {
  std::string samples;  ///< the samples in words: "1,000 held-out images of digits"
  std::string noun = "images";
  double accuracy = 0;
  double loss = 0;
  std::optional<double> top5_accuracy = {};
  std::vector<std::string> classes;
  ConfusionMatrix confusion;
  int64_t mistake_count = 0;
  std::vector<ReportMistake> mistakes;  ///< the worst of them, the worst first
  std::string all_mistakes;             ///< the command that lists all of them
};

struct Report {
  std::string run;  ///< its folder
  std::vector<record::Event> events;
  std::string weights;       ///< the file
  std::string weights_hash;  ///< sixteen digits, or empty
  bool judged = false;
  Judgement judgement;
  std::string not_judged;                          ///< why it was not tested
  std::optional<record::KeptConfusion> kept = {};  ///< shown if it was not judged
  std::vector<std::string> warnings;               ///< in addition to those of the run
};

/// A page that loads nothing: no script, no font, and no address but data in the page. Text from file names
/// and from the run is escaped.
std::string report_page(const Report& report);

}  // namespace lockstep::view
