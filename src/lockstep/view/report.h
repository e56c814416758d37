// The report of a run: one HTML page with all that it shows inside.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/class_figures.h"
#include "lockstep/io/event.h"

namespace lockstep::view {

/// A sample that was answered wrongly.
struct ReportMistake {
  std::string source;
  std::string truth;
  std::string answer;
  double score = 0;        ///< of the answer
  double truth_score = 0;  ///< of the true class
  std::string image_type;  ///< e.g. "image/png"
  std::string image;       ///< the file's bytes; empty: a table has the sample instead
  bool tiny = false;       ///< so few pixels that each is shown as a square
};

/// How the network did on labelled samples.
struct Judgement {
  std::string samples;  ///< what they are, in words: "1,000 held-out images of digits"
  std::string noun = "images";
  double accuracy = 0;
  double loss = 0;
  std::vector<std::string> classes;
  ConfusionMatrix confusion;
  int64_t mistake_count = 0;
  std::vector<ReportMistake> mistakes;  ///< the worst of them, in that order
  std::string all_mistakes;             ///< the command that lists all of them
};

struct Report {
  std::string run;  ///< its folder
  std::vector<io::Event> events;
  std::string weights;       ///< the file
  std::string weights_hash;  ///< sixteen digits, or empty
  bool judged = false;
  Judgement judgement;
  std::string not_judged;             ///< why not
  std::vector<std::string> warnings;  ///< beside those that the run gave
};

/// A page that needs nothing from elsewhere: no script, no font, no address but data in itself. What comes
/// from files' names and from the run is escaped.
std::string report_page(const Report& report);

}  // namespace lockstep::view
