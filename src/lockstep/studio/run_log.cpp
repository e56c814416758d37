#include "lockstep/studio/run_log.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/studio/glimpse.h"

namespace lockstep::studio {
namespace {

using record::Event;

constexpr int64_t kEventsBetweenLooks = 256;
constexpr int64_t kLeastKept = int64_t{16} << 20;  // bytes of logs that an index saves reading
constexpr int64_t kShareNotKept = 8;

std::string track_of(const CurveQuestion& question) {
  return question.name == LogContents::kLoss ? question.name
                                             : question.name.substr(0, question.name.find('.'));
}

// Leaves Follower::poll, which goes on after this event.
struct Pause {};

}  // namespace

RunLog::RunLog(std::filesystem::path folder, LogIndexes indexes)
    : folder_(std::move(folder)), indexes_(std::move(indexes)), follower_(folder_) {}

void RunLog::open(std::chrono::milliseconds time) {
  if (is_open_) return;
  const std::lock_guard reading(reading_);
  if (is_open_) return;
  if (!begin()) read(time);
  is_open_ = true;
}

bool RunLog::read_for(std::chrono::milliseconds time) {
  open(time);
  const std::lock_guard reading(reading_);
  return read(time);
}

bool RunLog::read(std::chrono::milliseconds time) {
  {
    const std::lock_guard lock(mutex_);
    if (is_damaged_) {
      begin_again();
      follower_.continue_at({});
    }
  }
  const auto until = Clock::now() + time;
  int64_t count = 0;
  bool is_complete = true;
  std::string problem;
  try {
    follower_.poll(
        [&](const Event& event) {
          {
            const std::lock_guard lock(mutex_);
            prepare_to_take();
            contents_.take(event);
          }
          if (++count % kEventsBetweenLooks == 0 && Clock::now() > until) throw Pause();
        },
        [&](const record::MeasuredLines& lines, const record::LogName& log) {
          {
            const std::lock_guard lock(mutex_);
            prepare_to_take();
            contents_.take(lines, log);
          }
          ++count;
          if (Clock::now() > until) throw Pause();
        });
  } catch (const Pause&) {
    is_complete = false;
  } catch (const Error& error) {  // a damaged line, after which the next call goes on
    problem = error.message();
  }
  const std::lock_guard lock(mutex_);
  is_complete_ = is_complete;
  if (!is_complete) return !glimpse_;
  problem_ = problem;
  const bool was_coarse = glimpse_.has_value();
  glimpse_.reset();
  return was_coarse || count > 0;
}

// Returns whether there is a picture to show before more is read.
bool RunLog::begin() {
  if (auto index = indexes_.read(folder_)) {
    follower_.continue_at(std::move(index->places));
    kept_bytes_ = bytes_read();
    const std::lock_guard lock(mutex_);
    contents_ = std::move(index->contents);
    unread_ = std::move(index->columns);
    has_unread_ = true;
    return false;  // the rest is short
  }
  auto glimpse = glimpse_of(folder_);
  const std::lock_guard lock(mutex_);
  glimpse_ = std::move(glimpse);
  return glimpse_.has_value();
}

void RunLog::keep() {
  const std::lock_guard reading(reading_);
  const int64_t bytes = bytes_read();
  if (bytes - kept_bytes_ < std::max(kLeastKept, kept_bytes_ / kShareNotKept)) return;
  const std::shared_lock lock(mutex_);
  if (!is_complete_ || !problem_.empty() || is_damaged_ || has_unread_) return;
  indexes_.write(folder_, follower_.places(), contents_);
  kept_bytes_ = bytes;  // also if it could not be written
}

int64_t RunLog::bytes_read() const {
  int64_t bytes = 0;
  for (const record::LogPlace& place : follower_.places()) bytes += place.offset;
  return bytes;
}

void RunLog::begin_again() {
  contents_ = {};
  unread_ = {};
  has_unread_ = is_damaged_ = false;
  kept_bytes_ = 0;
}

void RunLog::prepare_to_take() {
  // Another run has this name now.
  if (follower_.restarts() != std::exchange(restarts_, follower_.restarts())) begin_again();
  if (has_unread_.exchange(false) && !unread_.read_all(contents_)) is_damaged_ = true;
}

// The part of the index that a question needs.
void RunLog::read_columns(const CurveQuestion& question) {
  if (!has_unread_) return;
  const std::lock_guard lock(mutex_);
  constexpr const char* kAxes[] = {"step", "epoch", "time"};
  const std::string axis = kAxes[static_cast<size_t>(question.axis)];
  const std::string value = question.name.substr(question.name.find('.') + 1);
  if (!unread_.read(contents_, track_of(question), {axis, "values." + value})) is_damaged_ = true;
}

bool RunLog::is_complete() const {
  const std::shared_lock lock(mutex_);
  return is_complete_;
}

std::optional<Curve> RunLog::curve(const CurveQuestion& question) {
  const size_t point = question.name.find('.');
  if (point == std::string::npos) return std::nullopt;
  read_columns(question);
  const std::shared_lock lock(mutex_);
  const auto& tracks = shown().tracks;
  const auto found = tracks.find(track_of(question));
  if (is_damaged_ || found == tracks.end()) return std::nullopt;
  const Track& track = found->second;
  const auto values = track.values.find(question.name.substr(point + 1));
  if (values == track.values.end()) return std::nullopt;
  const std::vector<double>& x = question.axis == Axis::step    ? track.step
                                 : question.axis == Axis::epoch ? track.epoch
                                                                : track.time;
  if (x.empty()) return std::nullopt;
  Curve curve{
      .raw = thin(x, values->second, question.window), .smooth = {}, .first = x.front(), .last = x.back()};
  if (question.smoothing > 0)
    curve.smooth = thin(x, smoothed(values->second, question.smoothing), question.window);
  return curve;
}

std::vector<std::string> RunLog::names() const {
  const std::shared_lock lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [kind, track] : shown().tracks) {
    if (kind == LogContents::kLoss) continue;
    for (const auto& [name, values] : track.values) names.push_back(kind + "." + name);
  }
  return names;
}

Json RunLog::said() const {
  const std::shared_lock lock(mutex_);
  Json json = shown().everything_said();
  if (!problem_.empty()) json["problem"] = problem_;
  json["complete"] = is_complete_;
  return json;
}

int64_t RunLog::bytes() const {
  const std::shared_lock lock(mutex_);
  int64_t bytes = 0;
  for (const auto& [name, track] : contents_.tracks) {
    const size_t places = track.step.size() + track.epoch.size() + track.time.size();
    bytes += static_cast<int64_t>(places * sizeof(double));
    for (const auto& [value, column] : track.values)
      bytes += static_cast<int64_t>(column.size() * sizeof(float));
  }
  return bytes;
}

}  // namespace lockstep::studio
