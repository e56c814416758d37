// What is known of a run so far, for its plots and its status line.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "lockstep/record/event.h"
#include "lockstep/view/internal/curve.h"
#include "lockstep/view/internal/figures.h"

namespace lockstep::view {

struct Validation {
  int64_t step = 0;
  int64_t epoch = 0;
  double loss = 0;
  double accuracy = 0;
  bool best = false;
};

/// The state of a run after its latest event. Unknown numbers are NaN.
struct Status {
  int64_t step = 0;
  int64_t epoch = 0;
  int64_t total_steps = 0;                                     ///< 0: not known
  int64_t steps_per_epoch = 0;                                 ///< 0: not known
  int64_t max_epochs = 0;                                      ///< 0: not known
  double loss = std::numeric_limits<double>::quiet_NaN();      ///< smoothed
  double accuracy = std::numeric_limits<double>::quiet_NaN();  ///< smoothed
  double learning_rate = std::numeric_limits<double>::quiet_NaN();
  double images_per_second = std::numeric_limits<double>::quiet_NaN();
  std::string samples = "images";  ///< the word for samples: also "sequences", or "pieces" of them
  double seconds_left = std::numeric_limits<double>::quiet_NaN();
};

class History {
 public:
  void add(const record::Event& event);

  const Status& status() const { return status_; }
  const std::string& network() const { return network_; }
  const std::string& data() const { return data_; }
  const std::vector<Validation>& validations() const { return validations_; }
  bool has_steps() const { return !loss.empty() || !accuracy.empty(); }

  /// The steps at which epochs 2, 3, ... begin, with the epoch's number.
  const std::vector<std::pair<int64_t, int64_t>>& epoch_starts() const { return epoch_starts_; }

  Curve loss;
  Curve smooth_loss;
  Curve accuracy;
  Curve smooth_accuracy;
  Curve learning_rate;

 private:
  void add_plan(const record::Event& event);
  void add_step(const record::Event& event);
  void add_peaks(const record::Event& event);
  void forget_from(int64_t step);

  Status status_;
  std::string network_;
  std::string data_;
  std::vector<Validation> validations_;
  std::vector<std::pair<int64_t, int64_t>> epoch_starts_;
  Smoother loss_smoother_;
  Smoother accuracy_smoother_;
};

/// The axes for these curves, with at most this many ticks.
Axis step_axis(const History& history, int most_ticks);
Axis loss_axis(const History& history, int most_ticks);
Axis accuracy_axis(const History& history, int most_ticks);

}  // namespace lockstep::view
