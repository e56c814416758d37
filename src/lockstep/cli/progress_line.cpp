#include "lockstep/cli/progress_line.h"

#include <utility>

#include "lockstep/base/text.h"

namespace lockstep::cli {

ProgressLine::ProgressLine(Console& console, std::string noun, int64_t all)
    : noun_(std::move(noun)), all_(all), line_(console) {}

void ProgressLine::add(int64_t count) {
  const std::lock_guard lock(mutex_);
  done_ += count;
  if (done_ >= all_) return line_.erase();
  line_.show([&] {
    return with_commas(done_) + " of " + with_commas(all_) + " " + noun_ +
           line_.time_left(done_, all_ - done_);
  });
}

}  // namespace lockstep::cli
