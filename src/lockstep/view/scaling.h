// Compares the same training with several numbers of workers: smoothed accuracy against time, and images a
// second.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/record/event.h"

namespace lockstep::view {

/// One run, from its events. Seconds count from its plan.
class ScalingRun {
 public:
  explicit ScalingRun(int64_t workers) : workers_(workers) {}

  /// Events must come in the order of the run.
  void add(const record::Event& event);

  int64_t workers() const { return workers_; }

  struct Step {
    int64_t epoch = 0;
    int64_t step = 0;
    double seconds = 0;
    double loss = 0;
    double accuracy = 0;
    double images_per_second = 0;
  };
  const std::vector<Step>& steps() const { return steps_; }  ///< the steps that the run logs
  std::vector<double> smoothed_accuracy() const;             ///< one for each step
  double seconds() const { return seconds_; }                ///< until its last event
  /// Over all steps except the first; 0 before the end.
  double images_per_second() const { return images_per_second_; }
  const std::string& weights() const { return weights_; }  ///< hash of the last weights; empty before the end

  /// When the smoothed accuracy of training first reached this value.
  std::optional<double> seconds_to(double accuracy) const;

 private:
  int64_t workers_;
  std::vector<Step> steps_;
  std::optional<double> start_;  // the time of the first event
  double seconds_ = 0;
  double images_per_second_ = 0;
  std::string weights_;
};

/// A row for each logged step of each run.
std::string scaling_csv(const std::vector<ScalingRun>& runs);

/// Above: a curve of smoothed accuracy against time for each run. Below: images a second against workers, and
/// the line for workers that are each as fast as the first run's.
std::string scaling_svg(const std::vector<ScalingRun>& runs, const std::string& title);

}  // namespace lockstep::view
