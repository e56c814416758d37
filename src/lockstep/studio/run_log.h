// What a run has logged, in memory: its curves and what it has said.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/record/event.h"
#include "lockstep/record/follower.h"
#include "lockstep/studio/thin.h"

namespace lockstep::studio {

/// The unit of the axis below a curve.
enum class Axis { step, epoch, time };

/// Values of one kind, in the order of the steps. Those of steps that a later attempt made again are
/// replaced.
struct Track {
  std::vector<double> step;
  std::vector<double> epoch;
  std::vector<double> time;  ///< seconds of training, without the time between attempts
  std::map<std::string, std::vector<float>> values;
};

struct CurveQuestion {
  std::string name{};  ///< "step.loss", "validation.accuracy"
  Axis axis = Axis::step;
  Window window{};
  double smoothing = 0;  ///< 0: none; below 1
};

struct Curve {
  Points raw{};
  Points smooth{};   ///< empty without smoothing
  double first = 0;  ///< of the whole curve, on the axis
  double last = 0;
};

/// Any thread.
class RunLog {
 public:
  using Clock = std::chrono::steady_clock;

  explicit RunLog(std::filesystem::path folder);

  /// Reads what was added, for about this long. Returns whether there was something.
  bool read_for(std::chrono::milliseconds time);
  /// Whether all was read at the last look.
  bool is_complete() const;

  /// Nothing if the run has no such values.
  std::optional<Curve> curve(const CurveQuestion& question) const;
  /// The names of all curves.
  std::vector<std::string> names() const;
  /// What the run has said: {"plan", "environment", "messages", "validations", "failed", "end", "newest"};
  /// what it has not said is absent.
  Json said() const;
  int64_t bytes() const;

 private:
  void take(const record::Event& event);
  void take_values(const record::Event& event);
  void take_loss(const record::Event& event);
  Track& track_of(const std::string& name);
  double training_time(const record::Event& event);
  double epoch_of(const record::Event& event, double step) const;
  void add_point(Track& track, double step, const record::Event& event);
  void forget_from(double step);

  std::filesystem::path folder_;
  mutable std::mutex mutex_;
  record::Follower follower_;
  bool is_complete_ = false;
  std::string problem_;  // why the log cannot be read further
  std::map<std::string, Track> tracks_;
  int64_t attempt_ = 0;
  int64_t curve_attempt_ = 0;
  double attempt_began_ = 0;
  double before_attempt_ = 0;  // seconds of training
  double last_time_ = 0;
  int64_t steps_per_epoch_ = 0;
  Json said_ = Json::object();
  Json newest_ = Json::object();
};

}  // namespace lockstep::studio
