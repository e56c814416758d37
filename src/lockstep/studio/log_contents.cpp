#include "lockstep/studio/log_contents.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

#include "lockstep/record/event_kinds.h"
#include "lockstep/record/log_name.h"

namespace lockstep::studio {
namespace {

using record::Event;

constexpr size_t kMostMessages = 500;
constexpr size_t kMostNames = 64;  // of the values of one kind
constexpr const char* kLossNames[] = {"loss", "least_loss", "least_loss_step", "largest_loss",
                                      "largest_loss_step"};

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

// Other programs may say anything.
Json object_of(const Event& event) { return event.values.is_object() ? event.values : Json::object(); }

Json with_place(const Event& event) {
  Json json = object_of(event);
  json["kind"] = event.kind;
  json["step"] = event.step;
  json["epoch"] = event.epoch;
  json["time"] = event.time;
  json["attempt"] = event.attempt;
  return json;
}

}  // namespace

// A step's loss, and the extremes of the steps before it that were not logged; NaN is a loss, absent is none.
struct LogContents::Extremes {
  std::optional<double> loss{};
  std::optional<double> least{};
  std::optional<double> largest{};
  double least_step = -1;
  double largest_step = -1;
};

void LogContents::take(const Event& event) {
  if (!record::is_of_rank(event.writer)) {
    if (is_remark(event.kind)) said["messages"].push_back(with_place(event));
    return;
  }
  begin_attempt(event.attempt, event.time);
  if (event.kind == record::PlanOfRun::kind) {
    said["plan"] = object_of(event);
    steps_per_epoch =
        static_cast<int64_t>(std::clamp(record::number(event, "steps_per_epoch", 0), 0.0, 1e15));
  }
  if (event.kind == record::Environment::kind) said["environment"] = object_of(event);
  if (event.kind == record::Shards::kind) said["shards"] = object_of(event);
  if (event.kind == record::End::kind) said["end"] = with_place(event);
  if (event.kind == record::Failed::kind) said["failed"] = with_place(event);
  if (is_remark(event.kind)) {
    Json& messages = said["messages"];
    messages.push_back(with_place(event));
    if (messages.size() > kMostMessages) messages.erase(messages.begin());
  }
  if (is_curve(event.kind)) take_values(event);
}

void LogContents::begin_attempt(int64_t begun, double time) {
  if (begun == attempt && attempt_began != 0) return;
  attempt = begun;
  attempt_began = time;
  before_attempt = last_time;
}

// A later attempt makes the steps after its checkpoint again.
void LogContents::begin_step(const Track& track, int64_t attempt, double step) {
  const bool is_again = attempt != std::exchange(curve_attempt, attempt);
  if (is_again || (!track.step.empty() && step < track.step.back())) forget_from(step);
}

void LogContents::take_values(const Event& event) {
  if (!event.values.is_object()) return;
  Track& track = track_of(event.kind);
  const Place place{static_cast<double>(event.step), static_cast<double>(event.epoch), event.time};
  begin_step(track, event.attempt, place.step);
  if (event.kind == record::Step::kind) {
    const auto value = [&](const char* name) {
      return event.values.contains(name) ? std::optional(record::number(event, name)) : std::nullopt;
    };
    take_loss({.loss = value("loss"),
               .least = value("least_loss"),
               .largest = value("largest_loss"),
               .least_step = record::number(event, "least_loss_step", -1),
               .largest_step = record::number(event, "largest_loss_step", -1)},
              place);
    said.erase("failed");
    newest_line.clear();
    said["newest"] = with_place(event);
  }
  add_point(track, place);
  for (const auto& [name, value] : event.values.items()) {
    if (!is_number(value) || (!track.values.contains(name) && track.values.size() >= kMostNames)) continue;
    auto& values = track.values[name];
    values.resize(track.step.size() - 1, NAN);
    values.push_back(static_cast<float>(record::number(event, name)));
  }
  for (auto& [name, values] : track.values) values.resize(track.step.size(), NAN);
}

void LogContents::take(const record::MeasuredLines& lines, const record::LogName& log) {
  if (!record::is_of_rank(log.writer)) return;
  const record::MeasuredKeys& keys = *lines.keys;
  Track& track = track_of(keys.kind);
  std::vector<std::pair<size_t, std::vector<float>*>> columns;  // place in a row, values
  for (size_t i = 0; i < keys.names.size(); ++i) {
    if (!track.values.contains(keys.names[i]) && track.values.size() >= kMostNames) continue;
    columns.emplace_back(record::MeasuredLines::places + i, &track.values[keys.names[i]]);
    columns.back().second->resize(track.step.size(), NAN);
  }
  const auto place_of = [&](const char* name) {
    const auto found = std::find(keys.names.begin(), keys.names.end(), name);
    return found == keys.names.end() ? 0 : record::MeasuredLines::places + (found - keys.names.begin());
  };
  std::array<size_t, std::size(kLossNames)> losses{};
  std::transform(std::begin(kLossNames), std::end(kLossNames), losses.begin(), place_of);
  const bool is_step = keys.kind == record::Step::kind;
  for (const double *row = lines.numbers.data(), *end = row + lines.numbers.size(); row != end;
       row += lines.row_size()) {
    const Place place{row[record::MeasuredLines::step], row[record::MeasuredLines::epoch],
                      row[record::MeasuredLines::time]};
    begin_attempt(log.attempt, place.time);
    begin_step(track, log.attempt, place.step);
    if (is_step) {
      const auto value = [&](size_t at) { return at == 0 ? std::nullopt : std::optional(row[at]); };
      take_loss({value(losses[0]), value(losses[1]), value(losses[3]), value(losses[2]).value_or(-1),
                 value(losses[4]).value_or(-1)},
                place);
    }
    add_point(track, place);
    for (const auto& [at, values] : columns) values->push_back(static_cast<float>(row[at]));
  }
  for (auto& [name, values] : track.values) values.resize(track.step.size(), NAN);
  if (!is_step) return;
  said.erase("failed");
  newest_line = lines.last;
}

// Between two logged steps the run has logged the extremes of the steps that it left out.
void LogContents::take_loss(const Extremes& extremes, const Place& place) {
  Track& track = track_of(kLoss);
  auto& values = track.values["loss"];
  const double after = track.step.empty() ? 0 : track.step.back();
  const auto add = [&](double step, double value) {
    add_point(track, {step, place.epoch, place.time});
    values.push_back(static_cast<float>(value));
  };
  const auto is_between = [&](double step) { return step > after && step < place.step; };
  const bool has_least = extremes.least && is_between(extremes.least_step);
  const bool has_largest = extremes.largest && is_between(extremes.largest_step) &&
                           !(has_least && extremes.largest_step == extremes.least_step);
  const bool is_least_first = !has_largest || extremes.least_step < extremes.largest_step;
  if (has_least && is_least_first) add(extremes.least_step, *extremes.least);
  if (has_largest) add(extremes.largest_step, *extremes.largest);
  if (has_least && !is_least_first) add(extremes.least_step, *extremes.least);
  if (extremes.loss) add(place.step, *extremes.loss);
}

Track& LogContents::track_of(const std::string& name) { return tracks[name]; }

double LogContents::training_time(double time) {
  last_time = std::max(last_time, before_attempt + std::max(0.0, time - attempt_began));
  return last_time;
}

double LogContents::epoch_of(const Place& place) const {
  return steps_per_epoch > 0 ? place.step / static_cast<double>(steps_per_epoch) : place.epoch;
}

void LogContents::add_point(Track& track, const Place& place) {
  track.step.push_back(place.step);
  track.epoch.push_back(std::max(epoch_of(place), track.epoch.empty() ? 0.0 : track.epoch.back()));
  track.time.push_back(training_time(place.time));
}

void LogContents::forget_from(double step) {
  for (auto& [name, track] : tracks) {
    const auto keep = static_cast<size_t>(std::lower_bound(track.step.begin(), track.step.end(), step) -
                                          track.step.begin());
    track.step.resize(keep);
    track.epoch.resize(keep);
    track.time.resize(keep);
    for (auto& [key, values] : track.values) values.resize(std::min(keep, values.size()));
  }
}

Json LogContents::everything_said() const {
  Json json = said;
  if (newest_line.empty()) return json;
  Event event = record::from_line(newest_line);
  event.attempt = curve_attempt;
  json["newest"] = with_place(event);
  return json;
}

}  // namespace lockstep::studio
