#include "lockstep/train/step/pass_size.h"

#include <algorithm>

namespace lockstep::train {

void PassSize::note(int64_t samples, double seconds) {
  if (!measures() || samples != this->samples()) return;
  samples_ += static_cast<double>(samples);
  seconds_ += seconds;
}

void PassSize::end_step() {
  if (!measures()) return;
  if (step_ >= kFirstSteps && samples_ > 0) {
    double& least = least_[tries() ? 1 : 0];
    least = std::min(least, seconds_ / samples_);
  }
  samples_ = seconds_ = 0;
  constexpr double kMuchSlower = 1.1;
  const bool hopeless = least_[1] != kNone && least_[1] > kMuchSlower * least_[0];
  if (++step_ == kFirstSteps + 2 * kTrials || hopeless) decide();
}

// Other work on the machine makes times differ by some percent. A worker that never has as many samples as
// best_ has no time with them, and one whose shards are as large as best_ none with fewer.
void PassSize::decide() {
  constexpr double kBetter = 0.98;
  if (least_[1] < kBetter * least_[0]) {
    best_ = tried();
  } else {
    smallest_ = best_;
  }
  step_ = kFirstSteps;
  least_ = {kNone, kNone};
}

}  // namespace lockstep::train
