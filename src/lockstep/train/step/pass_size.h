// How many samples of small shards a worker computes in one pass. It changes no bit, so it is measured in the
// first steps: many samples at once need the weights fewer times, few leave more of their layers' outputs in
// the cache.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

namespace lockstep::train {

/// Belongs to one worker.
class PassSize {
 public:
  /// Largest and smallest number of samples. With equal numbers nothing is measured.
  PassSize(int64_t largest, int64_t smallest) : best_(largest), smallest_(smallest) {}

  /// The most samples of a pass of this step.
  int64_t samples() const { return tries() ? tried() : best_; }

  /// A pass of this step took so long. Only those of samples() samples count.
  void note(int64_t samples, double seconds);

  void end_step();

 private:
  static constexpr int64_t kFirstSteps = 2;  // not measured: caches and allocators are cold
  static constexpr int64_t kTrials = 3;      // steps of each number, in turn

  bool measures() const { return best_ > smallest_; }
  bool tries() const { return measures() && step_ >= kFirstSteps && (step_ - kFirstSteps) % 2 == 1; }
  int64_t tried() const { return best_ / 2; }
  void decide();

  static constexpr double kNone = std::numeric_limits<double>::infinity();
  int64_t best_;
  int64_t smallest_;
  int64_t step_ = 0;                              // of this comparison
  double samples_ = 0, seconds_ = 0;              // of this step
  std::array<double, 2> least_ = {kNone, kNone};  // seconds of a sample with best_ and with tried()
};

}  // namespace lockstep::train
