#include "lockstep/cli/status_line.h"

#include "lockstep/base/seconds.h"
#include "lockstep/base/text.h"

namespace lockstep::cli {

StatusLine::StatusLine(Console& console) : console_(console), redraws_(console.note_can_redraw()) {}

StatusLine::~StatusLine() { erase(); }

void StatusLine::erase() {
  if (redraws_ && shown_) console_.note("\r\033[K");
  shown_ = false;
}

void StatusLine::show(const std::function<std::string()>& text) {
  const double pause = !redraws_ ? 10 : shown_ ? 0.2 : 1;
  if (seconds_since(last_) < pause) return;
  last_ = Clock::now();
  shown_ = true;
  console_.note(redraws_ ? "\r" + text() + "\033[K" : text() + "\n");
}

std::string StatusLine::time_left(int64_t done, int64_t left) const {
  if (done <= 0 || left <= 0) return "";
  return ", " + as_duration(seconds_since(start_) * static_cast<double>(left) / static_cast<double>(done)) +
         " left";
}

}  // namespace lockstep::cli
