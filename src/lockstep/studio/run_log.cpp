#include "lockstep/studio/run_log.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/record/event_kinds.h"

namespace lockstep::studio {
namespace {

using record::Event;

constexpr const char* kLoss = "step.loss";
constexpr size_t kMostMessages = 500;
constexpr size_t kMostNames = 64;  // of the values of one kind
constexpr int64_t kEventsBetweenLooks = 256;

// Leaves Follower::poll, which goes on after this event.
struct Pause {};

bool is_curve(const std::string& kind) {
  return kind == record::Step::kind || kind == record::Validation::kind || kind == record::Average::kind;
}

bool is_remark(const std::string& kind) {
  return kind == record::Message::kind || kind == record::Answer::kind || kind == record::Stopping::kind ||
         kind == record::Skipped::kind || kind == record::Failed::kind || kind == record::End::kind ||
         kind == record::SavedCheckpoint::kind;
}

bool is_number(const Json& value) {
  if (value.is_number()) return true;
  if (!value.is_string()) return false;
  const auto& text = value.get_ref<const std::string&>();
  return text == "nan" || text == "inf" || text == "-inf";
}

Json with_place(const Event& event) {
  Json json = event.values.is_object() ? event.values : Json::object();
  json["kind"] = event.kind;
  json["step"] = event.step;
  json["epoch"] = event.epoch;
  json["time"] = event.time;
  json["attempt"] = event.attempt;
  return json;
}

}  // namespace

RunLog::RunLog(std::filesystem::path folder) : folder_(folder), follower_(std::move(folder)) {}

bool RunLog::read_for(std::chrono::milliseconds time) {
  const std::lock_guard lock(mutex_);
  const auto until = Clock::now() + time;
  const int64_t restarts = follower_.restarts();
  int64_t count = 0;
  try {
    follower_.poll([&](const Event& event) {
      if (follower_.restarts() != restarts && count == 0) {  // another run has this name now
        tracks_.clear();
        said_ = newest_ = Json::object();
        attempt_ = curve_attempt_ = 0;
        attempt_began_ = before_attempt_ = last_time_ = 0;
      }
      take(event);
      if (++count % kEventsBetweenLooks == 0 && Clock::now() > until) throw Pause();
    });
    is_complete_ = true;
    problem_.clear();
  } catch (const Pause&) {
    is_complete_ = false;
  } catch (const Error& error) {  // a damaged line, after which the next call goes on
    is_complete_ = true;
    problem_ = error.message();
  }
  return count > 0;
}

bool RunLog::is_complete() const {
  const std::lock_guard lock(mutex_);
  return is_complete_;
}

void RunLog::take(const Event& event) {
  if (!event.writer.starts_with("rank-")) {
    if (is_remark(event.kind)) said_["messages"].push_back(with_place(event));
    return;
  }
  if (event.attempt != attempt_ || attempt_began_ == 0) {
    attempt_ = event.attempt;
    attempt_began_ = event.time;
    before_attempt_ = last_time_;
  }
  if (event.kind == record::PlanOfRun::kind) {
    said_["plan"] = event.values;
    steps_per_epoch_ =
        static_cast<int64_t>(std::clamp(record::number(event, "steps_per_epoch", 0), 0.0, 1e15));
  }
  if (event.kind == record::Environment::kind) said_["environment"] = event.values;
  if (event.kind == record::End::kind) said_["end"] = with_place(event);
  if (event.kind == record::Failed::kind) said_["failed"] = with_place(event);
  if (is_remark(event.kind)) {
    Json& messages = said_["messages"];
    messages.push_back(with_place(event));
    if (messages.size() > kMostMessages) messages.erase(messages.begin());
  }
  if (is_curve(event.kind)) take_values(event);
}

void RunLog::take_values(const Event& event) {
  if (!event.values.is_object()) return;
  Track& track = track_of(event.kind);
  // A later attempt makes the steps after its checkpoint again.
  const bool is_again = event.attempt != curve_attempt_;
  curve_attempt_ = event.attempt;
  if (is_again || (!track.step.empty() && static_cast<double>(event.step) < track.step.back()))
    forget_from(static_cast<double>(event.step));
  if (event.kind == record::Step::kind) {
    take_loss(event);
    said_.erase("failed");
    newest_ = with_place(event);
  }
  add_point(track, static_cast<double>(event.step), event);
  for (const auto& [name, value] : event.values.items()) {
    if (!is_number(value) || (!track.values.contains(name) && track.values.size() >= kMostNames)) continue;
    auto& values = track.values[name];
    values.resize(track.step.size() - 1, NAN);
    values.push_back(static_cast<float>(record::number(event, name)));
  }
  for (auto& [name, values] : track.values) values.resize(track.step.size(), NAN);
}

// Between two logged steps the run has logged the extremes of the steps that it left out.
void RunLog::take_loss(const Event& event) {
  Track& track = track_of(kLoss);
  const double after = track.step.empty() ? 0 : track.step.back();
  const auto step = static_cast<double>(event.step);
  std::vector<std::pair<double, double>> points;
  for (const auto& [value, place] :
       {std::pair{"least_loss", "least_loss_step"}, {"largest_loss", "largest_loss_step"}}) {
    const double at = record::number(event, place, -1);
    if (at > after && at < step && event.values.contains(value))
      points.emplace_back(at, record::number(event, value));
  }
  if (points.size() == 2 && points[0].first == points[1].first) points.pop_back();
  std::sort(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  if (event.values.contains("loss")) points.emplace_back(step, record::number(event, "loss"));
  auto& values = track.values["loss"];
  for (const auto& [at, value] : points) {
    add_point(track, at, event);
    values.push_back(static_cast<float>(value));
  }
}

Track& RunLog::track_of(const std::string& name) { return tracks_[name]; }

double RunLog::training_time(const Event& event) {
  last_time_ = std::max(last_time_, before_attempt_ + std::max(0.0, event.time - attempt_began_));
  return last_time_;
}

double RunLog::epoch_of(const Event& event, double step) const {
  return steps_per_epoch_ > 0 ? step / static_cast<double>(steps_per_epoch_)
                              : static_cast<double>(event.epoch);
}

void RunLog::add_point(Track& track, double step, const Event& event) {
  track.step.push_back(step);
  track.epoch.push_back(std::max(epoch_of(event, step), track.epoch.empty() ? 0.0 : track.epoch.back()));
  track.time.push_back(training_time(event));
}

void RunLog::forget_from(double step) {
  for (auto& [name, track] : tracks_) {
    const auto keep = static_cast<size_t>(std::lower_bound(track.step.begin(), track.step.end(), step) -
                                          track.step.begin());
    track.step.resize(keep);
    track.epoch.resize(keep);
    track.time.resize(keep);
    for (auto& [key, values] : track.values) values.resize(std::min(keep, values.size()));
  }
}

std::optional<Curve> RunLog::curve(const CurveQuestion& question) const {
  const std::lock_guard lock(mutex_);
  const size_t point = question.name.find('.');
  if (point == std::string::npos) return std::nullopt;
  const std::string kind = question.name.substr(0, point);
  const auto found = tracks_.find(question.name == kLoss ? std::string(kLoss) : kind);
  if (found == tracks_.end()) return std::nullopt;
  const Track& track = found->second;
  const auto values = track.values.find(question.name.substr(point + 1));
  if (values == track.values.end() || track.step.empty()) return std::nullopt;
  const std::vector<double>& x = question.axis == Axis::step    ? track.step
                                 : question.axis == Axis::epoch ? track.epoch
                                                                : track.time;
  Curve curve{
      .raw = thin(x, values->second, question.window), .smooth = {}, .first = x.front(), .last = x.back()};
  if (question.smoothing > 0)
    curve.smooth = thin(x, smoothed(values->second, question.smoothing), question.window);
  return curve;
}

std::vector<std::string> RunLog::names() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [kind, track] : tracks_) {
    if (kind == kLoss) continue;
    for (const auto& [name, values] : track.values) names.push_back(kind + "." + name);
  }
  return names;
}

Json RunLog::said() const {
  const std::lock_guard lock(mutex_);
  Json json = said_;
  if (!newest_.empty()) json["newest"] = newest_;
  if (!problem_.empty()) json["problem"] = problem_;
  json["complete"] = is_complete_;
  return json;
}

int64_t RunLog::bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t bytes = 0;
  for (const auto& [name, track] : tracks_) {
    bytes += static_cast<int64_t>(track.step.size() * 3 * sizeof(double) +
                                  track.step.size() * track.values.size() * sizeof(float));
  }
  return bytes;
}

}  // namespace lockstep::studio
