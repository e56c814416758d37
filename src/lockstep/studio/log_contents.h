// What studio keeps of a run's logs: its curves and what it has said.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/record/event.h"
#include "lockstep/record/log_name.h"
#include "lockstep/record/measured_lines.h"

namespace lockstep::studio {

/// Values of one kind, in the order of the steps. Those of steps that a later attempt made again are
/// replaced.
struct Track {
  std::vector<double> step;
  std::vector<double> epoch;
  std::vector<double> time;  ///< seconds of training, without the time between attempts
  std::map<std::string, std::vector<float>> values;
};

struct LogContents {
  /// The track of the losses of all steps: also of those that were not logged, where they are extremes.
  static constexpr const char* kLoss = "step.loss";

  std::map<std::string, Track> tracks;  ///< by the kind of their events
  int64_t attempt = 0;
  int64_t curve_attempt = 0;  ///< of the last point
  double attempt_began = 0;   ///< the time of the day
  double before_attempt = 0;  ///< seconds of training
  double last_time = 0;       ///< seconds of training
  int64_t steps_per_epoch = 0;
  Json said = Json::object();  ///< "plan", "environment", "shards", "messages", "failed", "end", "newest"
  std::string newest_line;     ///< the newest logged step, if it is newer than said["newest"]

  /// Events in the order of their log; logs by attempt.
  void take(const record::Event& event);
  /// As take() of each line, much faster.
  void take(const record::MeasuredLines& lines, const record::LogName& log);

  /// `said` with the newest step.
  Json everything_said() const;

 private:
  // Where a value belongs.
  struct Place {
    double step = 0;
    double epoch = 0;
    double time = 0;  // of the day
  };
  struct Extremes;

  void take_values(const record::Event& event);
  void take_loss(const Extremes& extremes, const Place& place);
  Track& track_of(const std::string& name);
  void begin_attempt(int64_t begun, double time);
  void begin_step(const Track& track, int64_t attempt, double step);
  double training_time(double time);
  double epoch_of(const Place& place) const;
  void add_point(Track& track, const Place& place);
  void forget_from(double step);
};

}  // namespace lockstep::studio
