#include "lockstep/cli/progress_line.h"

#include <utility>

#include "lockstep/base/seconds.h"
#include "lockstep/base/text.h"

namespace lockstep::cli {

ProgressLine::ProgressLine(Console& console, std::string noun, int64_t all)
    : console_(console), noun_(std::move(noun)), all_(all), redraws_(console.note_can_redraw()) {}

ProgressLine::~ProgressLine() { take_away(); }

void ProgressLine::take_away() {
  if (redraws_ && shown_) console_.note("\r\033[K");
  shown_ = false;
}

void ProgressLine::add(int64_t count) {
  const std::lock_guard lock(mutex_);
  done_ += count;
  if (done_ >= all_) return take_away();
  const double pause = !redraws_ ? 10 : shown_ ? 0.2 : 1;
  if (seconds_since(last_) < pause) return;
  last_ = Clock::now();
  shown_ = true;
  const double left = seconds_since(start_) * static_cast<double>(all_ - done_) / static_cast<double>(done_);
  const std::string text =
      with_commas(done_) + " of " + with_commas(all_) + " " + noun_ + ", " + as_duration(left) + " left";
  console_.note(redraws_ ? "\r" + text + "\033[K" : text + "\n");
}

}  // namespace lockstep::cli
